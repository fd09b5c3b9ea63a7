"""Whether a user's vector field blows up, when and how fast."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flowsim import checks
from flowsim.blow_up.approach import Found, Manner, follow
from flowsim.blow_up.quick_compilation import quickly_compiled
from flowsim.integrate.arguments import check_rate, initial_state
from flowsim.integrate.scales import norm
from flowsim.outcome import Outcome

#: The solution is computed again in a lax run, whose tolerance (and share of the noise of the rate)
#: is this many times that of the result.
STRICTER = 16
#: And once more in a run each step of which is rounded onwards by so many units in the last place.
ONWARDS_ULPS = 8
#: A blow-up whose T − t₀ is uncertain by more than this share is none that was found; a steady
#: state must be the same in both runs to this share of its size.
DOUBTFUL = 0.1
#: T − t0 is never called more certain than this share of `rtol`, should the two agree by chance.
LEAST = 0.25
#: Neither run asks for more than this many units in the last place.
FLOOR_ULPS = 100
#: Rounding of T − t₀, in units in the last place, and its growth with the number of steps.
ROUNDING = 8

TOO_SMALL = Outcome.of("step_too_small").code

Scalar = Float[Array, "..."] | Float[np.ndarray, "..."] | np.floating
Count = Int[Array, "..."] | Int[np.ndarray, "..."] | np.integer


class FieldBlowUp(eqx.Module):
    """Whether and when the solution of a user's field blows up.

    `time` is infinite where no blow-up was found; then `outcome` says how the solve ended.
    """

    #: T, in the user's time.
    time: Scalar
    #: Estimate of |time − T|.
    error: Scalar
    #: p of ‖y‖ ~ (T − t)^{−p}; 0 for a logarithm; NaN without blow-up.
    exponent: Scalar
    outcome: Outcome
    #: The last state.
    state: Any
    #: Attempted steps.
    steps: Count

    def __repr__(self) -> str:
        return (
            f"{self.outcome}: T = {self.time} ± {self.error}, exponent {self.exponent}, "
            f"{self.steps} steps"
        )


def solve_to_blow_up(
    rate: Any,
    y0: Any,
    *,
    t0: Any = 0.0,
    t1: Any = np.inf,
    args: Any = None,
    rtol: Any = 1e-10,
    max_steps: Any = 10_000,
) -> FieldBlowUp:
    """Blow-up of ẏ = rate(t, y, args), y(t0) = y0, if there is any before t1.

    The solution is followed in desingularised time (`Desingularised`) until its own time scale
    is lost in the rounding of t, or until the numbers overflow; then T is read off the tail. It is
    computed at two tolerances, and again with more rounding; the differences, with the tail's
    share, are `error`. Rounding is most of it for a start beside an equilibrium.

    Args:
        rate: an object with `.rate(t, y, args)`, or such a function itself, that `jax.jvp` can
            differentiate.
        y0: initial state, any pytree of real arrays.
        t1: how far to look. For time that runs backwards negate the field and t.
        rtol: tolerance of the error of one step against the size of each entry.
        max_steps: attempted steps of each of the three runs, at most.

    Returns:
        `blow_up`; `reached_end` (t1, or growth beyond the largest number that is no faster than
        doubly exponential); `steady_state`; `step_too_small` (a singularity of the field at
        which the state stays bounded, or an end that differs between the runs: they lie on
        either side of a separatrix, or T − t0 is uncertain by more than a tenth); `non_finite`
        (also growth beyond the largest number that is too slow to say whether it ends, as of
        ẏ = y log(y) log(log y)); `too_many_steps` (stiffness ends there). Growth faster than any
        power, as of ẏ = y log(y)², has an infinite exponent and a T that is known poorly. Only
        a blow-up has a finite `time`. Under `jit` and `vmap` the same as data; it has no
        derivative (of the leading-order flow `blow_up_time` has one).

    Raises:
        ValueError, TypeError: arguments that break a rule; the message names them.
    """
    rate = getattr(rate, "rate", rate)
    if not callable(rate):
        raise TypeError(f"rate must be callable or have a rate; got {checks.shown(rate)}")
    y0 = initial_state("y0", y0)
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    t0, t1 = checks.number("t0", t0), checks.number("t1", t1)
    if not checks.is_traced(t0, t1) and not (np.isfinite(t0) and t1 > t0):
        raise checks.fail("t1", f"be larger than a finite t0 = {t0:g}", t1)
    rtol = checks.between("rtol", rtol, 1e-14, 1e-1)
    if not checks.is_traced(max_steps):
        max_steps = checks.integer("max_steps", max_steps)
    args = jax.tree.map(lambda x: jnp.asarray(x) if eqx.is_array_like(x) else x, args)
    t0, t1, rtol = (jnp.asarray(x, dtype) for x in (t0, t1, rtol))
    y0, t0, t1, args = eqx.internal.nondifferentiable(
        (y0, t0, t1, args), msg="solve_to_blow_up has no derivative"
    )
    found = _solve(rate, y0, t0, t1 - t0, args, rtol, jnp.asarray(max_steps, jnp.int32))
    return found if checks.is_traced(found) else jax.tree.map(lambda x: np.asarray(x)[()], found)


@quickly_compiled
def _solve(rate, y0, t0, span, args, rtol, max_steps) -> FieldBlowUp:
    """The result first; the other two runs only if there is an end to compare with."""
    check_rate("rate", rate, t0, y0, args)
    strict = jnp.maximum(rtol / STRICTER, FLOOR_ULPS * jnp.finfo(t0.dtype).eps)

    def run(budget, manner):
        found = follow(rate, y0, t0, span, args, manner, budget)
        ends = jnp.isfinite(found.elapsed) | (found.outcome == "steady_state")
        return jnp.where(ends, max_steps, 0), found

    lax = jnp.asarray([1, STRICTER, 1], t0.dtype)
    onwards = jnp.asarray([0, 0, ONWARDS_ULPS], t0.dtype)
    _, runs = jax.lax.scan(run, max_steps, Manner(lax * strict, lax / STRICTER, onwards))
    found, other, rounded = (jax.tree.map(lambda x: x[i], runs) for i in range(3))  # noqa: B023
    agree = _agree(y0, found, other) & _agree(y0, found, rounded)
    return _result(t0, found, other, rounded, strict, agree)


def _agree(y0: Any, found: Found, other: Found) -> Array:
    """Whether two runs came to the same place."""
    apart = norm(jax.tree.map(jnp.subtract, found.state, other.state))
    size = norm(y0) + norm(found.state) + norm(other.state)
    return (other.outcome == found.outcome) & (apart <= DOUBTFUL * size)


def _result(
    t0: Array, found: Found, other: Found, rounded: Found, rtol: Array, agree: Array
) -> FieldBlowUp:
    eps = jnp.finfo(t0.dtype).eps
    time = t0 + found.elapsed
    steps = found.steps.astype(t0.dtype)
    rounding = eps * (jnp.abs(time) + ROUNDING * jnp.sqrt(steps) * found.elapsed)
    finite = jnp.isfinite(time)
    elapsed = jnp.where(finite, found.elapsed, 0)
    difference = jnp.abs(elapsed - other.elapsed) + jnp.abs(elapsed - rounded.elapsed)
    difference = jnp.maximum(difference, LEAST * STRICTER * rtol * elapsed)
    error = jnp.where(finite, difference + found.tail_error + rounding, jnp.inf)
    sure = error <= DOUBTFUL * found.elapsed
    unsure = (finite & ~sure) | ((found.outcome == "steady_state") & ~agree)
    instead = jnp.where(other.outcome.failed, other.outcome.code, TOO_SMALL)
    return FieldBlowUp(
        time=jnp.where(sure, time, jnp.inf),
        error=jnp.where(sure, error, jnp.inf),
        exponent=jnp.where(sure, found.exponent, jnp.nan),
        outcome=Outcome(jnp.where(unsure, instead, found.outcome.code)),
        state=found.state,
        steps=found.steps,
    )
