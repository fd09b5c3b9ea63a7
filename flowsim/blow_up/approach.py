"""Following one solution in desingularised time until it blows up or ends otherwise."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flowsim.blow_up import desingularised as ds
from flowsim.blow_up.tail import Tail, empty, extrapolate, powers, shrinks
from flowsim.integrate import stepper
from flowsim.integrate.scales import all_finite, norm
from flowsim.integrate.solvers import solver_of
from flowsim.outcome import Outcome

#: A step's error may grow as the remaining time falls below this share of the time elapsed: an
#: error δ of the state costs T only δ (T − t). It never exceeds the second figure.
LATE, LOOSEST = 1e-3, 1e-2
#: Noise of a field that depends on t: units in the last place of t, over the time scale.
NOISE_ULPS = 16
#: The time scale has vanished below so many units in the last place of t.
ARRIVED_ULPS = 64
#: A solve that gives out this close to T (share of the time elapsed) has blown up all the same:
#: a field with a pole in t itself is noise there.
CLOSE = 1e-10
#: Absolute tolerance, as a share of the whole state: rounding noise of a component that is zero.
NOISE = 1 / 64
#: Sizes beyond this share of the largest number are an overflow; with a state beyond the second
#: share it is the state that outgrew the numbers, else its rate.
OVERFLOW, HUGE = 1e-12, 1e-40
#: The tail's nodes resolve T − t while their time scale is so many units in the last place of T.
RESOLVED_ULPS = 1e4
#: The state stands still if it would not move by so many units in the last place.
STILL_ULPS = 64
#: ‖ẏ‖ ~ (T − t)^{−q−1}: from about q = 0 on its integral diverges; some entry of y must have
#: grown since T − t was this share of the time, by that factor.
LEAST_POWER, EARLY, GROWTH = -0.1, 1e-6, 1.1

#: Powers q below this are a logarithm's.
LOGARITHMIC = 0.01
#: A power p that much below q shows a rotation.
ROTATION = 0.05

#: First step in s, whose unit is the time scale of the start.
FIRST_STEP = 0.01

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


def follow(rate: Any, y0: Any, t0: Any, span: Any, args: Any, rtol: Any, budget: Any) -> Found:
    """The solution from y0 at t0 up to its blow-up, for at most `span`, in `budget` steps."""
    place, around = ds.start(rate, t0, y0, span, args)
    problem = stepper.Problem(
        rate=ds.Desingularised(rate),
        solver=solver_of("dopri8", rtol),
        args=around,
        events={},
        end=lambda first: jnp.full_like(t0, jnp.inf),
        times=None,
        rtol=rtol,
        atol=_tolerance(place, rtol, jnp.zeros_like(t0)),
        max_steps=budget,
    )
    stepping = stepper.begin(problem, jnp.ones_like(t0), place, 1)
    stepping = eqx.tree_at(lambda s: s.t_next, stepping, jnp.full_like(t0, 1 + FIRST_STEP))
    nowhere = jax.tree.map(jnp.zeros_like, y0)
    begun = Approach(
        stepping=stepping,
        clock=around.clock,
        tail=empty(t0),
        scale=ds.time_scale(ds.motion(rate, t0, y0, args), place, around),
        moved=nowhere,
        moved_early=nowhere,
        largest=jax.tree.map(jnp.abs, y0),
        overflow=jnp.asarray(False),
        code=jnp.where(budget > 0, stepping.outcome.code, Outcome.of("too_many_steps").code),
    )
    ended = jax.lax.while_loop(
        lambda a: a.code == RUNNING, lambda a: _advance(problem, y0, a), begun
    )
    return _conclusion(problem, ended)


def _tolerance(place: ds.Place, rtol: Any, of_time: Any) -> ds.Place:
    """Absolute tolerances: rounding noise for y, all the freedom for the averages."""
    noise = NOISE * jnp.finfo(rtol.dtype).eps * norm(place.y)
    return ds.Place(
        t=of_time,
        y=jax.tree.map(lambda x: noise, place.y),
        log_sizes=jnp.full_like(rtol, 0.1),
    )


def _loosened(rtol: Any, now: Any, t: Any, scale: Any) -> Array:
    """The tolerance here: looser near T, and nowhere finer than what t itself resolves."""
    resolved = NOISE_ULPS * jnp.finfo(rtol.dtype).eps * jnp.abs(t)
    loosened = jnp.maximum(rtol, jnp.maximum(LATE * rtol * now, resolved) / scale)
    return jnp.minimum(loosened, jnp.maximum(LOOSEST, rtol))


def _advance(problem: stepper.Problem, y0: Any, a: Approach) -> Approach:
    """One attempted step; what was gained goes to the clock."""
    around = eqx.tree_at(lambda x: x.clock, problem.args, a.clock)
    now, t = a.clock.since_start(a.stepping.y.t), a.clock.time(a.stepping.y.t)
    rtol = _loosened(problem.rtol, now, t, a.scale)
    of_time = jnp.minimum(problem.rtol * now, LOOSEST * a.scale)
    atol = _tolerance(a.stepping.y, rtol, of_time)
    problem = eqx.tree_at(lambda p: (p.args, p.rtol, p.atol), problem, (around, rtol, atol))
    missing = around.span - now
    before = _rebased(a.stepping, jnp.maximum(now, jnp.abs(t)) / a.scale, missing / a.scale)
    after = _not_past(missing, _grain(now, t, a.scale), before, stepper.attempt(problem, before))
    clock = a.clock.advanced(after.y.t)
    after = eqx.tree_at(lambda s: s.y.t, after, jnp.zeros_like(after.y.t))
    return _observe(problem, y0, eqx.tree_at(lambda a: (a.stepping, a.clock), a, (after, clock)))


def _rebased(s: stepper.Stepping, origin: Any, longest: Any) -> stepper.Stepping:
    """The same at another s, on which nothing depends but the size of a collapsed step, 16 units
    in its last place: `origin` makes that rounding of the user's time."""
    origin = jnp.maximum(origin, 1)
    t_next = origin + jnp.minimum(s.t_next - s.t, longest)
    return eqx.tree_at(lambda s: (s.t, s.t_next, s.saved), s, (origin, t_next, s.saved.emptied()))


def _grain(now: Any, t: Any, scale: Any) -> Array:
    """What a time is uncertain by."""
    return 4 * jnp.finfo(now.dtype).eps * (now + jnp.abs(t) + scale)


def _not_past(
    missing: Any, grain: Any, before: stepper.Stepping, after: stepper.Stepping
) -> stepper.Stepping:
    """A step that went past t1 is taken again, shortened by the secant; one ends within rounding
    of t1 after a few."""
    gained = after.y.t
    past = gained > missing + grain
    shorter = before.t + (before.t_next - before.t) * (missing / jnp.where(past, gained, 1))
    again = eqx.tree_at(
        lambda s: (s.t_next, s.rejected, s.outcome),
        before,
        (shorter, before.rejected + 1, after.outcome),
    )
    return jax.tree.map(lambda a, b: jnp.where(past, a, b), again, after)


def _observe(problem: stepper.Problem, y0: Any, a: Approach) -> Approach:
    """Notes what the tail needs, and whether the solve ends here."""
    place, around = a.stepping.y, eqx.tree_at(lambda x: x.clock, problem.args, a.clock)
    now = a.clock.since_start(place.t)
    moving = ds.motion(problem.rate.rate, a.clock.time(place.t), place.y, around.args)
    scale = ds.time_scale(moving, place, around)
    growth = moving.growth()
    shrinking = 1 / jnp.where(growth != 0, growth, jnp.finfo(growth.dtype).tiny)
    distance = jax.tree.map(lambda x, start: x - start, place.y, y0)
    values = (now, shrinking, jnp.log(moving.norms[1]), jnp.log(norm(distance)))
    moved = jax.tree.map(lambda m, d: jnp.maximum(m, jnp.abs(d)), a.moved, distance)
    early = scale > jnp.maximum(EARLY * now, 1e3 * _level(a.clock.time(place.t)))
    later = Approach(
        stepping=a.stepping,
        clock=a.clock,
        tail=a.tail.pushed(scale, *values),
        scale=scale,
        moved=moved,
        moved_early=jax.tree.map(lambda m, e: jnp.where(early, m, e), moved, a.moved_early),
        largest=jax.tree.map(lambda m, x: jnp.maximum(m, jnp.abs(x)), a.largest, place.y),
        overflow=jnp.max(moving.norms) > OVERFLOW * jnp.finfo(now.dtype).max,
        code=a.stepping.outcome.code,
    )
    return eqx.tree_at(lambda a: a.code, later, _judge(later, around, moving))


def _judge(a: Approach, around: ds.Surroundings, moving: ds.Motion) -> Array:
    """How the solve ends here, or that it goes on; `blow_up`: its time scale has vanished."""
    now, t = a.clock.since_start(jnp.zeros_like(a.scale)), a.clock.time(jnp.zeros_like(a.scale))
    arrived = a.scale <= jnp.maximum(_level(now), _level(t))
    close = a.scale <= jnp.maximum(CLOSE * now, 16 * _level(t))
    still = _still(a, moving, now) & (now > 100 * around.unit)
    code, running = a.code, a.code == RUNNING
    ended = around.span - now <= _grain(now, t, a.scale)
    code = jnp.where(running & ended, Outcome.of("reached_end").code, code)
    code = jnp.where(running & still, Outcome.of("steady_state").code, code)
    code = jnp.where((running & arrived) | (Outcome(a.code).failed & close), SINGULAR, code)
    return jnp.where(running & a.overflow, Outcome.of("non_finite").code, code)


def _level(t: Any) -> Array:
    """Time scales below this have vanished at t."""
    return ARRIVED_ULPS * jnp.finfo(t.dtype).eps * jnp.abs(t)


def _still(a: Approach, moving: ds.Motion, now: Any) -> Array:
    """Whether no entry would move by some units in its last place in all the time elapsed."""
    eps = jnp.finfo(now.dtype).eps

    def still(y, rate, largest):
        size = jnp.maximum(jnp.abs(y), eps * largest)
        return jnp.all(jnp.abs(rate) * now <= STILL_ULPS * eps * size)

    parts = jax.tree.map(still, a.stepping.y.y, moving.rate, a.largest)
    return jnp.all(jnp.stack(jax.tree.leaves(parts)))


def _conclusion(problem: stepper.Problem, a: Approach) -> Found:
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
    code = jnp.where(vanished, _singularity(problem, a), a.code)
    code = jnp.where(slow, Outcome.of("reached_end").code, code)
    return Found(
        elapsed=jnp.where(blows_up, time, jnp.inf),
        tail_error=spread,
        exponent=jnp.where(blows_up, _exponent(p, q), jnp.nan),
        outcome=Outcome(jnp.where(blows_up, SINGULAR, code)),
        state=a.stepping.y.y,
        steps=a.stepping.accepted + a.stepping.rejected,
    )


def _singularity(problem: stepper.Problem, a: Approach) -> Array:
    """What a singularity with a bounded state is: whether the field goes on behind it."""
    t = a.clock.time(a.stepping.y.t)
    ahead = 100 * jnp.maximum(a.scale, _level(t))
    rate, args = problem.rate.rate, problem.args.args
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
