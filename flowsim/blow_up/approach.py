"""Following one solution in desingularised time until it blows up or ends otherwise."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from flowsim.blow_up import desingularised as ds
from flowsim.blow_up.ending import (
    EARLY,
    OVERFLOW,
    RUNNING,
    Approach,
    Found,
    conclusion,
    grain,
    judge,
    vanishing,
)
from flowsim.blow_up.tail import empty
from flowsim.integrate import stepper
from flowsim.integrate.scales import norm
from flowsim.integrate.solvers import solver_of
from flowsim.outcome import Outcome

#: A step's error may grow as the remaining time falls below this share of the time elapsed: an
#: error δ of the state costs T only δ (T − t). It never exceeds the second figure.
LATE, LOOSEST = 1e-3, 1e-2
#: Noise of a field that depends on t: units in the last place of t, over the time scale.
NOISE_ULPS = 16
#: Absolute tolerance in units in the last place of the whole state: rounding noise of an entry
#: that should be zero.
NOISE = 1 / 64
#: First step in s, whose unit is the time scale of the start.
FIRST_STEP = 0.01


def follow(rate: Callable, y0: Any, t0: Any, span: Any, args: Any, rtol: Any, budget: Any) -> Found:
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
        lambda a: a.code == RUNNING, lambda a: _advance(rate, problem, y0, a), begun
    )
    return conclusion(rate, args, ended)


def _tolerance(place: ds.Place, rtol: Any, of_time: Any) -> ds.Place:
    """Absolute tolerances: rounding noise for y, all the freedom for the averages."""
    noise = NOISE * jnp.finfo(rtol.dtype).eps * norm(place.y)
    return ds.Place(
        t=of_time,
        y=jax.tree.map(lambda x: noise, place.y),
        log_sizes=jnp.full_like(place.log_sizes, 0.1),
    )


def _loosened(rtol: Any, now: Any, t: Any, scale: Any) -> Array:
    """The tolerance here: looser near T, and nowhere finer than what t itself resolves."""
    resolved = NOISE_ULPS * jnp.finfo(rtol.dtype).eps * jnp.abs(t)
    loosened = jnp.maximum(rtol, jnp.maximum(LATE * rtol * now, resolved) / scale)
    return jnp.minimum(loosened, jnp.maximum(LOOSEST, rtol))


def _advance(rate: Callable, problem: stepper.Problem, y0: Any, a: Approach) -> Approach:
    """One attempted step; what was gained goes to the clock."""
    around = eqx.tree_at(lambda x: x.clock, problem.args, a.clock)
    now, t = a.clock.since_start(a.stepping.y.t), a.clock.time(a.stepping.y.t)
    looser = _loosened(problem.rtol, now, t, a.scale)
    atol = _tolerance(a.stepping.y, looser, jnp.minimum(problem.rtol * now, LOOSEST * a.scale))
    problem = eqx.tree_at(lambda p: (p.args, p.rtol, p.atol), problem, (around, looser, atol))
    missing = around.span - now
    before = _rebased(a.stepping, jnp.maximum(now, jnp.abs(t)) / a.scale, missing / a.scale)
    after = _not_past(missing, grain(now, t, a.scale), before, stepper.attempt(problem, before))
    clock = a.clock.advanced(after.y.t)
    after = eqx.tree_at(lambda s: s.y.t, after, jnp.zeros_like(after.y.t))
    a = eqx.tree_at(lambda a: (a.stepping, a.clock), a, (after, clock))
    return _observe(rate, eqx.tree_at(lambda x: x.clock, around, clock), y0, a)


def _rebased(s: stepper.Stepping, origin: Any, longest: Any) -> stepper.Stepping:
    """The same at another s, on which nothing depends but the size of a collapsed step, 16 units
    in its last place: `origin` makes that rounding of the user's time."""
    origin = jnp.maximum(origin, 1)
    shortest = 8 * jnp.finfo(origin.dtype).eps * origin
    t_next = origin + jnp.maximum(jnp.minimum(s.t_next - s.t, longest), shortest)
    return eqx.tree_at(lambda s: (s.t, s.t_next, s.saved), s, (origin, t_next, s.saved.emptied()))


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


def _observe(rate: Callable, around: ds.Surroundings, y0: Any, a: Approach) -> Approach:
    """Notes what the tail needs, and whether the solve ends here."""
    place = a.stepping.y
    now = a.clock.since_start(place.t)
    moving = ds.motion(rate, a.clock.time(place.t), place.y, around.args)
    scale = ds.time_scale(moving, place, around)
    growth = moving.growth()
    shrinking = 1 / jnp.where(growth != 0, growth, jnp.finfo(growth.dtype).tiny)
    distance = jax.tree.map(lambda x, start: x - start, place.y, y0)
    values = (now, shrinking, jnp.log(moving.norms[1]), jnp.log(ds.inner(distance, moving.rate)))
    moved = jax.tree.map(lambda m, d: jnp.maximum(m, jnp.abs(d)), a.moved, distance)
    early = scale > jnp.maximum(EARLY * now, 1e3 * vanishing(a.clock.time(place.t)))
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
    return eqx.tree_at(lambda a: a.code, later, judge(later, around, moving))
