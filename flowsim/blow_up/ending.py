"""How a solve in desingularised time ends: with a blow-up, or with something else."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flowsim.blow_up import desingularised as ds
from flowsim.blow_up.tail import Tail, beyond_powers, extrapolate, powers
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
#: What is uncertain of the end of a tail, in its own time scales.
LATE = 4
#: The tail's nodes resolve T − t while their time scale is so many units in the last place of T.
RESOLVED_ULPS = 1e4
#: The state stands still if it would not move by so many units in the last place in all the time
#: elapsed, and that is so many time scales of the start.
STILL_ULPS, STILL_UNITS = 64, 100
#: So does one whose rate decays and that has been within so many tolerances of a place where the
#: rate vanishes for so many steps.
IDLE, IDLE_STEPS = 8, 30
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
    origin: Any  # the state of that time
    largest: Any  # largest |y| so far
    left: Float[Array, ""]  # dt/d log‖ẏ‖, infinite where it falls
    noise: Any  # of ẏ, as a share of ⟨‖ẏ‖⟩
    idle: Int[Array, ""]  # steps for which it has stood as still as steps let it
    overflow: Bool[Array, ""]
    code: Int[Array, ""]


def vanishing(t: Any) -> Array:
    """Time scales below this have vanished at t."""
    return ARRIVED_ULPS * jnp.finfo(t.dtype).eps * jnp.abs(t)


def grain(now: Any, t: Any, scale: Any) -> Array:
    """What a time is uncertain by."""
    return 4 * jnp.finfo(now.dtype).eps * (now + jnp.abs(t) + scale)


def judge(a: Approach, around: ds.Surroundings, quiet: Any) -> Array:
    """How the solve ends here, or that it goes on; `blow_up`: its time scale has vanished."""
    now, t = a.clock.since_start(jnp.zeros_like(a.scale)), a.clock.time(jnp.zeros_like(a.scale))
    arrived = a.scale <= jnp.maximum(vanishing(now), vanishing(t))
    close = a.scale <= jnp.maximum(CLOSE * now, 16 * vanishing(t))
    still = quiet & (now > STILL_UNITS * around.unit) & (a.scale <= 2 * ds.FASTEST * now)
    still = still | (a.idle >= IDLE_STEPS)
    code, running = a.code, a.code == RUNNING
    ended = around.span - now <= grain(now, t, a.scale)
    code = jnp.where(running & ended, Outcome.of("reached_end").code, code)
    code = jnp.where(running & still, Outcome.of("steady_state").code, code)
    code = jnp.where((running & arrived) | (Outcome(a.code).failed & close), SINGULAR, code)
    return jnp.where(running & a.overflow, Outcome.of("non_finite").code, code)


def stillness(
    rates: tuple[Any, ...], place: ds.Place, largest: Any, noise: Any, rtol: Any, now: Any
) -> tuple[Array, Array]:
    """Whether no entry would move by some units in its last place in all the time elapsed, and
    whether each is so few times `rtol` from where its rate vanishes that steps cannot better it."""
    eps, speed = jnp.finfo(now.dtype).eps, jnp.exp(place.log_sizes[1])

    def each(y, largest, noise, *rates):
        size = jnp.maximum(jnp.abs(y), eps * largest)
        fastest = jnp.max(jnp.abs(jnp.stack(rates)), axis=0)
        quiet = fastest * now <= STILL_ULPS * eps * size
        idle = fastest <= IDLE * rtol / eps * speed * noise
        return jnp.stack([jnp.all(quiet), jnp.all(quiet | idle)])

    parts = jax.tree.map(each, place.y, largest, noise, *rates)
    quiet, idle = jnp.all(jnp.stack(jax.tree.leaves(parts)), axis=0)
    return quiet, idle


def conclusion(rate: Callable, args: Any, a: Approach) -> Found:
    """Blow-up, or what else it is where the time scale vanished or the numbers overflowed."""
    now = a.clock.since_start(jnp.zeros_like(a.scale))
    time, spread, settled = extrapolate(a.tail)
    resolved = a.tail.scale > RESOLVED_ULPS * jnp.finfo(now.dtype).eps * now
    time = jnp.where(settled & resolved, time, now + a.scale)
    left = jnp.maximum(a.scale, jnp.where(a.left < now, a.left, 0))
    spread = jnp.where(settled & resolved, spread, 0) + jnp.where(a.overflow, 0, LATE * left)
    p, q = powers(a.tail, time, a.clock.time(jnp.zeros_like(now)))
    unbounded = (q > LEAST_POWER) & (_growth(a) > GROWTH)
    vanished = a.code == SINGULAR
    late, late_spread, beyond, endless = beyond_powers(a.tail)
    huge = a.overflow & (norm(a.stepping.y.y) > HUGE * jnp.finfo(now.dtype).max)
    beyond = huge & beyond & ~settled
    blows_up = (settled & a.overflow) | beyond | (vanished & unbounded)
    stuck = vanished | (a.code == Outcome.of("step_too_small").code)
    code = jnp.where(stuck, _singularity(rate, args, a), a.code)
    code = jnp.where(huge & endless, Outcome.of("reached_end").code, code)
    exponent = jnp.where(beyond, jnp.inf, _exponent(p, q))
    return Found(
        elapsed=jnp.where(blows_up, jnp.where(beyond, late, time), jnp.inf),
        tail_error=jnp.where(beyond, late_spread, spread),
        exponent=jnp.where(blows_up, exponent, jnp.nan),
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
