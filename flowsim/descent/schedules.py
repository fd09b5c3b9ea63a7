"""Learning-rate schedules: step k → factor of the learning rate."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flowsim import checks

#: A schedule: step k, from 0, to η_k/η.
Schedule = Callable[[Int[Array, ""]], Any]


class Constant(eqx.Module):
    """η_k = η."""

    def __call__(self, k: Int[Array, ""]) -> Float[Array, ""]:
        """1 at every step."""
        return jnp.ones((), jnp.result_type(float))


class WarmUpCosine(eqx.Module):
    """Linear warm-up, then half a cosine: with the length w of the warm-up and p of the cosine,

    η_k/η = start + (1 − start) (k+1)/w for k < w,
    end + (1 − end) (1 + cos(π min(1, (k+1−w)/p)))/2 after it.

    η itself is used at the last step of the warm-up. The schedule of [CL] for the anchor task
    (theory.md, section 13) has start = 1/15.

    Args:
        warm_up: w ≥ 0 in steps.
        decay: p ≥ 1 in steps.
        start, end: factors before the warm-up and after the cosine, in [0, 1].
    """

    warm_up: Array
    decay: Array
    start: Array
    end: Array

    def __init__(self, warm_up: int, decay: int, *, start: Any = 0.0, end: Any = 0.0):
        dtype = jnp.result_type(float)
        self.warm_up = jnp.asarray(checks.integer("warm_up", warm_up, low=0), dtype)
        self.decay = jnp.asarray(checks.integer("decay", decay), dtype)
        ends = (True, True)
        self.start = jnp.asarray(checks.between("start", start, 0.0, 1.0, closed=ends), dtype)
        self.end = jnp.asarray(checks.between("end", end, 0.0, 1.0, closed=ends), dtype)

    def __call__(self, k: Int[Array, ""]) -> Float[Array, ""]:
        """η_k/η."""
        done = k.astype(self.decay.dtype) + 1
        rising = self.start + (1 - self.start) * done / jnp.maximum(self.warm_up, 1.0)
        share = jnp.clip((done - self.warm_up) / self.decay, 0, 1)
        falling = self.end + (1 - self.end) * (1 + jnp.cos(jnp.pi * share)) / 2
        return jnp.where(done <= self.warm_up, rising, falling)


def schedule_of(schedule: Any, steps: int) -> Schedule:
    """The schedule behind None (constant), "warm_up_cosine" (a tenth of the steps up, the rest
    down to zero) or a function of the step.

    Raises:
        ValueError, TypeError: an unknown name, or no function.
    """
    if schedule is None:
        return Constant()
    if isinstance(schedule, str):
        checks.choice("schedule", schedule, ("warm_up_cosine",))
        warm_up = steps // 10
        return WarmUpCosine(warm_up, max(1, steps - warm_up))
    if not callable(schedule):
        raise TypeError(f"schedule must be callable or a name; got {checks.shown(schedule)}")
    return schedule
