"""When the assumptions of [CL] start to hold along a run (their Assumptions 1, 2 and 2*)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.observables import along, condensation_condition, frobenius
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

OUTER = ("W_V", "W_1", "W_2")


class Assumptions(eqx.Module):
    """The numbers behind the assumptions at the saved times of a run.

    With δ(t) the largest entry of W_Q and W_K, L_{1,i} = ℓ(y_i σ'(0) x̄_i·β), β = W_V W_1 W_2:

    * 1, condensation: shares of indices and pairs, as `condensation_condition` names them.
    * 2, criticality: ‖∇_outer L̃_1‖ = O(δ²), L̃_1 the mean of L_{1,i}; here its ratio to δ².
    * 2, key-query stunting: |W_Q|, |W_K| = O(δ) with δ small; here δ itself.
    * 2*: directions of the outer matrices at rest, ‖d/dt (W/‖W‖)‖ ≈ 0, and |dL_{1,i}/dt| = O(δ²)
      for all i; here the largest rate of a direction and the ratio of the largest loss rate to δ².

    Attributes:
        times: the saved times, training time.
        condensation: name → share, (T,).
        delta: δ, (T,).
        criticality: ‖∇_outer L̃_1‖/δ², (T,).
        direction_rate: the largest ‖d/dt (W/‖W‖)‖ of W_V, W_1, W_2, (T,).
        loss_rate: max_i |dL_{1,i}/dt|/δ², (T,).
    """

    times: Float[np.ndarray, "T"]
    condensation: dict[str, Float[np.ndarray, "T"]]
    delta: Float[np.ndarray, "T"]
    criticality: Float[np.ndarray, "T"]
    direction_rate: Float[np.ndarray, "T"]
    loss_rate: Float[np.ndarray, "T"]

    def since(
        self, *, share: float = 1.0, ratio: float = 1.0, small: float = 0.1, still: float = 1e-2
    ) -> dict[str, float | None]:
        """The first time at which each assumption holds; None where it never does.

        * `1`: every share is at least `share`, then and ever after.
        * `2`: the criticality is at most `ratio` while δ is at most `small`.
        * `2*`: the same of the loss rate, and directions turn by at most `still` times their
          fastest turn.

        Both hold at a small start for a trivial reason, all rates being small: the time is that
        after stage 1, when they hold again.
        """
        worst = np.min(np.stack(list(self.condensation.values())), axis=0)
        small_keys = self.delta <= small
        at_rest = self.direction_rate <= still * np.max(self.direction_rate)
        return {
            "1": _lasting(self.times, worst >= share),
            "2": _again(self.times, (self.criticality <= ratio) & small_keys),
            "2*": _again(self.times, (self.loss_rate <= ratio) & at_rest & small_keys),
        }

    def at(self, t: float) -> dict[str, float]:
        """Every number at time t, linear between the saved times."""
        curves = self.condensation | {
            name: getattr(self, name)
            for name in ("delta", "criticality", "direction_rate", "loss_rate")
        }
        return {name: float(np.interp(t, self.times, curve)) for name, curve in curves.items()}


def assumptions(net: OneLayerTransformer, task: Task, run: Trajectory) -> Assumptions:
    """The assumptions along a simulated or predicted run of `Parameters` with rates."""
    if run.rates is None:
        raise checks.fail("run", "have rates", None)
    observe = eqx.Partial(_numbers, net, task)
    found = along(run, observe, with_rates=True)
    condensation = found.pop("condensation")
    return Assumptions(np.asarray(run.trim().times, np.float64), condensation, **found)


def _numbers(
    net: OneLayerTransformer, task: Task, theta: Parameters, rate: Parameters
) -> dict[str, Any]:
    delta = jnp.maximum(jnp.max(jnp.abs(theta.W_Q)), jnp.max(jnp.abs(theta.W_K)))
    outer, outer_rate = ([getattr(w, name) for name in OUTER] for w in (theta, rate))

    def losses(outer: list[Array]) -> Float[Array, "n"]:
        beta = outer[0] @ outer[1] @ outer[2]
        return net.margin_loss(task.y * net.slope * (task.mean_tokens @ beta))

    gradient = jax.grad(lambda outer: jnp.mean(losses(outer)))(outer)
    size = frobenius(jnp.stack([frobenius(g) for g in gradient]))
    loss_rate = jnp.max(jnp.abs(jax.jvp(losses, (outer,), (outer_rate,))[1]))
    turns = jnp.stack([_turn(W, dW) for W, dW in zip(outer, outer_rate, strict=True)])
    square = jnp.maximum(delta**2, jnp.finfo(delta.dtype).tiny)
    return {
        "condensation": condensation_condition(theta, net.direction(task)),
        "delta": delta,
        "criticality": size / square,
        "direction_rate": jnp.max(turns),
        "loss_rate": loss_rate / square,
    }


def _turn(W: Array, rate: Array) -> Float[Array, ""]:
    """‖d/dt (W/‖W‖)‖ = ‖Ẇ − W (W·Ẇ)/‖W‖²‖/‖W‖; 0 for W = 0."""
    size = frobenius(W)
    unit = W / jnp.where(size > 0, size, 1)
    across = rate - unit * jnp.sum(unit * rate)
    return jnp.where(size > 0, frobenius(across) / jnp.where(size > 0, size, 1), 0)


def _again(times: np.ndarray, holds: np.ndarray) -> float | None:
    """The first time it holds after it has not; the first of all where it always does."""
    held = np.flatnonzero(holds & (np.cumsum(~holds) > 0)) if not np.all(holds) else [0]
    return float(times[held[0]]) if len(held) else None


def _lasting(times: np.ndarray, holds: np.ndarray) -> float | None:
    """The time from which it holds to the end."""
    fails = np.flatnonzero(~holds)
    if fails.size == 0:
        return float(times[0])
    return float(times[fails[-1] + 1]) if fails[-1] + 1 < times.size else None
