"""How a solve in desingularised time ends: with a blow-up, or with something else."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flowsim.blow_up import desingularised as ds
from flowsim.blow_up.tail import Tail, extrapolate, powers, shrinks
from flowsim.integrate import stepper
from flowsim.integrate.scales import all_finite, norm
from flowsim.outcome import Outcome

#: The time scale has vanished below so many units in the last place of t.
ARRIVED_ULPS = 64
#: A solve that gives out this close to T (share of the time elapsed) has blown up all the same:
#: a field with a pole in t itself is noise there.
CLOSE = 1e-10
#: Sizes beyond this share of the largest number are an overflow; with a state beyond the second
#: share it is the state that outgrew the numbers, else its rate.
OVERFLOW, HUGE = 1e-12, 1e-40
#: The tail's nodes resolve T − t while their time scale is so many units in the last place of T.
RESOLVED_ULPS = 1e4
#: The state stands still if it would not move by so many units in the last place in all the time
#: elapsed, and that is so many time scales of the start.
STILL_ULPS, STILL_UNITS = 64, 100
#: ‖ẏ‖ ~ (T − t)^{−q−1}: from about q = 0 on its integral diverges; some entry of y must have
#: grown by that factor since the time scale was the second figure's share of the time elapsed.
LEAST_POWER, EARLY, GROWTH = -0.1, 1e-6, 1.1
#: Powers q below this are a logarithm's; a power p that much below q shows a rotation.
LOGARITHMIC, ROTATION = 0.01, 0.1

RUNNING, SINGULAR = Outcome.of("running").code, Outcome.of("blow_up").code


class Found(eqx.Module):
    """What one solve says."""

    elapsed: Float[Array, ""]  # T − t₀, infinite if no blow-up was found
    tail_error: Float[Array, ""]
    exponent: Float[Array, ""]
    outcome: Outcome
    state: Any
    steps: Int[Array, ""]


class Approach(eqx.Module):
    """A solve under way."""

    stepping: stepper.Stepping
    clock: ds.Clock
    tail: Tail
    scale: Float[Array, ""]
    moved: Any  # largest |y − y0| so far
    moved_early: Any
    largest: Any  # largest |y| so far
    overflow: Bool[Array, ""]
    code: Int[Array, ""]


def vanishing(t: Any) -> Array:
    """Time scales below this have vanished at t."""
    return ARRIVED_ULPS * jnp.finfo(t.dtype).eps * jnp.abs(t)


def grain(now: Any, t: Any, scale: Any) -> Array:
    """What a time is uncertain by."""
    return 4 * jnp.finfo(now.dtype).eps * (now + jnp.abs(t) + scale)


def judge(a: Approach, around: ds.Surroundings, moving: ds.Motion) -> Array:
    """How the solve ends here, or that it goes on; `blow_up`: its time scale has vanished."""
    now, t = a.clock.since_start(jnp.zeros_like(a.scale)), a.clock.time(jnp.zeros_like(a.scale))
    arrived = a.scale <= jnp.maximum(vanishing(now), vanishing(t))
    close = a.scale <= jnp.maximum(CLOSE * now, 16 * vanishing(t))
    still = _still(a, moving, now) & (now > STILL_UNITS * around.unit)
    code, running = a.code, a.code == RUNNING
    ended = around.span - now <= grain(now, t, a.scale)
    code = jnp.where(running & ended, Outcome.of("reached_end").code, code)
    code = jnp.where(running & still, Outcome.of("steady_state").code, code)
    code = jnp.where((running & arrived) | (Outcome(a.code).failed & close), SINGULAR, code)
    return jnp.where(running & a.overflow, Outcome.of("non_finite").code, code)


def _still(a: Approach, moving: ds.Motion, now: Any) -> Array:
    """Whether no entry would move by some units in its last place in all the time elapsed."""
    eps = jnp.finfo(now.dtype).eps

    def still(y, rate, largest):
        size = jnp.maximum(jnp.abs(y), eps * largest)
        return jnp.all(jnp.abs(rate) * now <= STILL_ULPS * eps * size)

    parts = jax.tree.map(still, a.stepping.y.y, moving.rate, a.largest)
    return jnp.all(jnp.stack(jax.tree.leaves(parts)))


def conclusion(rate: Callable, args: Any, a: Approach) -> Found:
    """Blow-up, or what else it is where the time scale vanished or the numbers overflowed."""
    now = a.clock.since_start(jnp.zeros_like(a.scale))
    time, spread, settled = extrapolate(a.tail)
    resolved = a.tail.scale > RESOLVED_ULPS * jnp.finfo(now.dtype).eps * now
    time = jnp.where(settled & resolved, time, now + a.scale)
    spread = jnp.where(settled & resolved, spread, 0) + jnp.where(a.overflow, 0, 4 * a.scale)
    settled = settled & a.overflow
    p, q = powers(a.tail, time)
    unbounded = (q > LEAST_POWER) & (_growth(a) > GROWTH)
    vanished = a.code == SINGULAR
    blows_up = settled | (vanished & unbounded)
    huge = HUGE * jnp.finfo(now.dtype).max
    slow = a.overflow & (norm(a.stepping.y.y) > huge) & ~shrinks(a.tail)
    code = jnp.where(vanished, _singularity(rate, args, a), a.code)
    code = jnp.where(slow, Outcome.of("reached_end").code, code)
    return Found(
        elapsed=jnp.where(blows_up, time, jnp.inf),
        tail_error=spread,
        exponent=jnp.where(blows_up, _exponent(p, q), jnp.nan),
        outcome=Outcome(jnp.where(blows_up, SINGULAR, code)),
        state=a.stepping.y.y,
        steps=a.stepping.accepted + a.stepping.rejected,
    )


def _singularity(rate: Callable, args: Any, a: Approach) -> Array:
    """What a singularity with a bounded state is: whether the field goes on behind it."""
    t = a.clock.time(a.stepping.y.t)
    ahead = 100 * jnp.maximum(a.scale, vanishing(t))
    speed = rate(t, a.stepping.y.y, args)
    y = jax.tree.map(lambda y, f: y + ahead * f, a.stepping.y.y, speed)
    finite = all_finite(rate(t + ahead, y, args))
    return jnp.where(finite, Outcome.of("step_too_small").code, Outcome.of("non_finite").code)


def _exponent(p: Any, q: Any) -> Array:
    """q, which constants do not disturb, unless a rotation makes ‖ẏ‖ grow faster than d‖y‖/dt."""
    return jnp.where(q < LOGARITHMIC, 0, jnp.where(p > q - ROTATION, q, p))


def _growth(a: Approach) -> Array:
    """Largest factor by which the distance of an entry from its start grew late."""

    def largest(whole, early):
        return jnp.max(jnp.where(early > 0, whole / jnp.where(early > 0, early, 1), 0))

    return jnp.max(jnp.stack(jax.tree.leaves(jax.tree.map(largest, a.moved, a.moved_early))))
