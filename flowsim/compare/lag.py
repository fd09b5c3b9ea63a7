"""The lag law: by how much later a descent reaches a size than the flow (theory.md, section 9)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.compare.escape import reaching_times, whole_norm
from flowsim.flows import LeadingOrder
from flowsim.integrate import Event, integrate
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.observables.norms import frobenius
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory
from flowsim.trajectory.hermite import interpolate

#: How much longer than the run the leading-order flow may take to reach the same size.
PATIENCE = 3.0
RTOL = 1e-8


class FirstOrderError(eqx.Module):
    """A flow f with the first-order error of its descent: states (y, δ), y_descent = y + hδ.

    δ̇ = f'(y) (δ − (c/2) f(y)), c = (1+β)/(1−β): what descent with heavy ball β and step
    h = η/(1−β) adds to order h (Barrett & Dherin 2021 for β = 0; the recurrence
    y_{k+1} − y_k − β (y_k − y_{k−1}) = η f(y_k), expanded about t = hk, gives c).
    """

    flow: LeadingOrder
    c: Float[Array, ""]

    def rate(self, t: Any, state: tuple[Any, Any], args: Any = None) -> tuple[Any, Any]:
        """(f, f'(δ − (c/2) f))."""
        y, delta = state
        f = self.flow.rate(t, y)
        tangent = jax.tree.map(lambda d, f: d - self.c / 2 * f, delta, f)
        return f, jax.jvp(lambda y: self.flow.rate(t, y), (y,), (tangent,))[1]


class ReachesSize(eqx.Module):
    """log(‖W_2‖/level) of the first part of the state."""

    log_level: Float[Array, ""]

    def __call__(self, t: Any, state: tuple[Parameters, Parameters], args: Any) -> Array:
        """Zero where the level is reached."""
        return jnp.log(frobenius(state[0].W_2)) - self.log_level


def step_of(stats: dict[str, Any]) -> tuple[float, float] | None:
    """(h, β) of a descent; None if the record does not say."""
    if "learning_rate" not in stats:
        return None
    beta = float(stats.get("momentum", 0.0))
    return float(stats["learning_rate"]) / (1 - beta), beta


def lags_of_stage_1(
    net: OneLayerTransformer,
    task: Task,
    theta0: Parameters,
    levels: Float[np.ndarray, "L"],
    patience: float,
    beta: float,
) -> Float[np.ndarray, "L"] | None:
    """Lag over h at each size ‖W_2‖ for the leading-order flow from theta0, to first order in h.

    A state behind by hδ reaches a size later by −h (W_2·δW_2)/(W_2·Ẇ_2). Momentum starts from
    rest, which is δ(0) = −β/(1−β) f.

    Returns:
        None if the leading-order flow does not reach the last level in `patience`.
    """
    dtype = theta0.W_Q.dtype
    flow = LeadingOrder(task, net.kappa(task), net.direction(task))
    error = FirstOrderError(flow, jnp.asarray((1 + beta) / (1 - beta), dtype))
    f = flow.rate(0.0, theta0)
    delta = jax.tree.map(lambda f: -jnp.asarray(beta / (1 - beta), dtype) * f, f)
    stop = Event(ReachesSize(jnp.log(jnp.asarray(levels[-1], dtype))), terminal=True)
    run = integrate(error, (theta0, delta), patience, events={"size": stop}, rtol=RTOL)
    if run.outcome != "event":
        return None
    return _lags(run, levels)


def _lags(run: Trajectory, levels: Float[np.ndarray, "L"]) -> Float[np.ndarray, "L"]:
    """−(W_2·δW_2)/(W_2·Ẇ_2) where the flow reaches each level."""
    (theta, delta), (rate, _) = run.states, run.rates
    W_2, error, speed = (np.asarray(x.W_2, dtype=np.float64) for x in (theta, delta, rate))
    late = -np.sum(W_2 * error, axis=1) / np.sum(W_2 * speed, axis=1)
    times = np.asarray(run.times, dtype=np.float64)
    sizes = np.linalg.norm(W_2, axis=1)
    slopes = np.sum(W_2 * speed, axis=1) / sizes**2
    at = reaching_times(times, sizes, np.minimum(levels, sizes[-1]), slopes)
    return interpolate(times, [late], None, at)[0]


def lags_of_growth(
    run: Trajectory, at: Float[np.ndarray, "L"], beta: float
) -> Float[np.ndarray, "L"] | None:
    """Lag over h at the times `at` of any flow that grows without turning:

        β/(1−β) + ½ ((1+β)/(1−β)) ln(‖ẏ(t)‖/‖ẏ(0)‖),

    for ṙ = κr² and β = 0: ln(r/r₀), the lag law. Needs the rates of the run.
    """
    if run.rates is None:
        return None
    speed = np.log(whole_norm(run.rates))
    growth = np.interp(at, np.asarray(run.times, dtype=np.float64), speed) - speed[0]
    return beta / (1 - beta) + 0.5 * (1 + beta) / (1 - beta) * growth
