"""Itô diffusions by Euler–Maruyama: the one place that calls a stochastic solver."""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import lineax
from jaxtyping import Array, Float

from flowsim.integrate.scales import all_finite
from flowsim.outcome import NAMES, Outcome
from flowsim.trajectory import Trajectory


def diffusion(
    drift: Callable[..., Any],
    noise: Callable[..., Any],
    y0: Any,
    *,
    dimension: int,
    step: Any,
    steps: int,
    saves: int = 1,
    key: Array,
    args: Any = None,
) -> Trajectory:
    """dX = drift(t, X, args) dt + noise(t, X, ·, args) dW with W in R^dimension, from t = 0.

    Euler–Maruyama with a fixed step, of weak order 1. The noise is given by its action on a
    vector, so that no matrix of states by noises is formed. A pure function: use it under
    `jit` and `vmap` over keys.

    Args:
        noise: (t, X, ξ, args) → an increment shaped like X, linear in ξ of shape (dimension,).
        step, steps: length and number of steps.
        saves: how many equally spaced states are saved after the first; it divides `steps`.
    """
    t1 = step * steps
    times = jnp.linspace(jnp.zeros_like(t1), t1, saves + 1)
    shape = jax.ShapeDtypeStruct((dimension,), times.dtype)

    def operator(t: Any, y: Any, args: Any) -> lineax.FunctionLinearOperator:
        return lineax.FunctionLinearOperator(lambda xi: noise(t, y, xi, args), shape)

    path = diffrax.UnsafeBrownianPath(shape=shape, key=key)
    terms: Any = diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(operator, path))
    solution = diffrax.diffeqsolve(
        terms,
        diffrax.Euler(),
        t0=times[0],
        t1=t1,
        dt0=step,
        y0=y0,
        args=args,
        saveat=diffrax.SaveAt(t0=True, ts=times[1:]),
        stepsize_controller=diffrax.ConstantStepSize(),
        adjoint=diffrax.ForwardMode(),
        max_steps=None,
        throw=False,
    )
    ended = _ending(solution.ys)
    return Trajectory(times, solution.ys, ended, stats={"steps": steps})


def _ending(states: Any) -> Outcome:
    finite = all_finite(states)
    codes = [jnp.asarray(NAMES.index(name), jnp.int32) for name in ("reached_end", "non_finite")]
    return Outcome(jnp.where(finite, *codes))


def mean_and_variance(values: Float[Array, "members *rest"]) -> tuple[Any, Any, Any, Any]:
    """Mean and variance over an ensemble with their standard errors.

    The error of the variance s² is sqrt((m₄ − s⁴)/N), m₄ the fourth central moment.
    """
    count = values.shape[0]
    mean = jnp.mean(values, axis=0)
    centred = values - mean
    variance = jnp.sum(centred**2, axis=0) / (count - 1)
    fourth = jnp.mean(centred**4, axis=0)
    mean_error = jnp.sqrt(variance / count)
    variance_error = jnp.sqrt(jnp.maximum(fourth - variance**2, 0) / count)
    return mean, mean_error, variance, variance_error
