"""Following one solution in desingularised time until it blows up or ends otherwise."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.blow_up import desingularised as ds
from flowsim.blow_up import rounding
from flowsim.blow_up.ending import (
    EARLY,
    OVERFLOW,
    RUNNING,
    Approach,
    Found,
    conclusion,
    grain,
    judge,
    stillness,
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
#: Absolute tolerance of an entry in units in the last place of its own largest size so far (or of
#: the whole state, where that is less).
FADED_ULPS = 1 / 64
#: Noise of the rate that was met is remembered, and forgotten by this factor in each step.
FORGETTING = 0.5
#: Whether the field vanishes for good is asked at so many times the time elapsed, or at t1.
AHEAD = 1e3
#: First step in s, whose unit is the time scale of the start.
FIRST_STEP = 0.01


class Manner(eqx.Module):
    """How exactly a solution is followed; one entry for each of several runs."""

    #: Tolerance of the error of one step.
    rtol: Float[Array, "..."]
    #: The noise of the rate, in its own measure, that an error of one step may drown in.
    noise: Float[Array, "..."]
    #: Units in the last place of each entry by which each step moves on, the way it is going.
    onwards: Float[Array, "..."]


def follow(
    rate: Callable,
    y0: Any,
    t0: Any,
    span: Any,
    args: Any,
    manner: Manner,
    budget: Any,
) -> Found:
    """The solution from y0 at t0 up to its blow-up, for at most `span`, in `budget` steps."""
    moving = ds.motion(rate, t0, y0, args)
    place, around = ds.start(moving, t0, y0, span, args)
    nowhere = jax.tree.map(jnp.zeros_like, y0)
    scale = ds.time_scale(jnp.exp(place.log_sizes[2]), place)
    problem = stepper.Problem(
        rate=ds.Desingularised(rate),
        solver=solver_of("dopri8", manner.rtol),
        args=around,
        events={},
        end=lambda first: jnp.full_like(t0, jnp.inf),
        times=None,
        rtol=manner.rtol,
        atol=place,
        max_steps=budget,
    )
    stepping = stepper.begin(problem, jnp.ones_like(t0), place, 1)
    stepping = eqx.tree_at(lambda s: s.t_next, stepping, jnp.full_like(t0, 1 + FIRST_STEP))
    begun = Approach(
        stepping=stepping,
        clock=around.clock,
        tail=empty(t0),
        scale=scale,
        moved=nowhere,
        moved_early=nowhere,
        origin=y0,
        largest=jax.tree.map(jnp.abs, y0),
        left=jnp.full_like(t0, jnp.inf),
        noise=nowhere,
        idle=jnp.zeros_like(stepping.accepted),
        overflow=jnp.asarray(False),
        code=jnp.where(budget > 0, stepping.outcome.code, Outcome.of("too_many_steps").code),
    )
    ended = jax.lax.while_loop(
        lambda a: a.code == RUNNING, lambda a: _advance(rate, problem, y0, manner, a), begun
    )
    return conclusion(rate, args, ended)


def _tolerance(manner: Manner, now: Any, a: Approach) -> ds.Place:
    """Absolute tolerances: what the noise of the rate does in a step, and all the freedom for the
    averages. An error of t is part of one of T, but not where noise makes it: what is true of g
    is true of ẏ, so that the state has moved as far as t says."""
    eps, place = jnp.finfo(now.dtype).eps, a.stepping.y
    noise = jax.tree.map(lambda n: manner.noise * n, a.noise)
    in_a_step = a.scale * jnp.exp(place.log_sizes[1])
    size = norm(place.y)
    faded = lambda n, x: in_a_step * n + FADED_ULPS * eps * jnp.minimum(x, size)  # noqa: E731
    of_time = jnp.maximum(manner.rtol * now, norm(noise) * a.scale)
    return ds.Place(
        t=jnp.minimum(of_time, LOOSEST * a.scale),
        y=jax.tree.map(faded, noise, a.largest),
        log_sizes=jnp.full_like(place.log_sizes, 0.1),
    )


def _loosened(rtol: Any, now: Any, a: Approach) -> Array:
    """The tolerance here: looser near T."""
    late = LATE * rtol * now / jnp.maximum(a.scale, a.left)
    return jnp.minimum(jnp.maximum(rtol, late), jnp.maximum(LOOSEST, rtol))


def _advance(
    rate: Callable, problem: stepper.Problem, y0: Any, manner: Manner, a: Approach
) -> Approach:
    """One attempted step; what was gained goes to the clock."""
    around = eqx.tree_at(lambda x: x.clock, problem.args, a.clock)
    now, t = a.clock.since_start(a.stepping.y.t), a.clock.time(a.stepping.y.t)
    looser, atol = _loosened(manner.rtol, now, a), _tolerance(manner, now, a)
    problem = eqx.tree_at(lambda p: (p.args, p.rtol, p.atol), problem, (around, looser, atol))
    missing = around.span - now
    before = _rebased(a.stepping, jnp.maximum(now, jnp.abs(t)) / a.scale, missing / a.scale)
    after = _not_past(missing, grain(now, t, a.scale), before, stepper.attempt(problem, before))
    clock = a.clock.advanced(after.y.t)
    after = eqx.tree_at(lambda s: s.y.t, after, jnp.zeros_like(after.y.t))
    landed = after.accepted > before.accepted
    a = eqx.tree_at(lambda a: (a.stepping, a.clock), a, (after, clock))
    around = eqx.tree_at(lambda x: x.clock, around, clock)
    return _observe(rate, around, y0, looser, jnp.where(landed, manner.onwards, 0), a)


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


def _observe(
    rate: Callable, around: ds.Surroundings, y0: Any, rtol: Any, ulps: Any, a: Approach
) -> Approach:
    """Notes what the tail needs, and whether the solve ends here."""
    place, t = a.stepping.y, a.clock.time(a.stepping.y.t)
    now = a.clock.since_start(place.t)
    moving = ds.motion(rate, t, place.y, around.args)
    scale = ds.time_scale(ds.pace(moving, place, around), place)
    moved = jax.tree.map(lambda m, x, x0: jnp.maximum(m, jnp.abs(x - x0)), a.moved, place.y, y0)
    growth = moving.growth()
    lasting = 1 / jnp.where(growth != 0, growth, jnp.finfo(growth.dtype).tiny)
    beyond = jax.tree.map(jnp.subtract, place.y, a.origin)
    values = now, lasting, jnp.log(moving.norms[2]), moving.log_gain(beyond)
    early = scale > jnp.maximum(EARLY * now, 1e3 * vanishing(t))
    noise = _noise(rate, t, moving, around.args, a)
    largest = jax.tree.map(lambda m, x: jnp.maximum(m, jnp.abs(x)), a.largest, place.y)
    ahead = jnp.minimum(AHEAD * now, around.span - now)
    later = rate(t + ahead, place.y, around.args)
    quiet, idle = stillness((moving.rate, later), place, largest, noise, rtol, now)
    observed = Approach(
        stepping=a.stepping,
        clock=a.clock,
        tail=a.tail.pushed(scale, *values),
        scale=scale,
        moved=moved,
        moved_early=_where(early, moved, a.moved_early),
        origin=_where(early, place.y, a.origin),
        largest=largest,
        left=jnp.where(growth > 0, lasting, jnp.inf),
        noise=noise,
        idle=jnp.where(idle & (growth < 0), a.idle + 1, 0),
        overflow=jnp.max(moving.norms) > OVERFLOW * jnp.finfo(now.dtype).max,
        code=a.stepping.outcome.code,
    )
    code = judge(observed, around, quiet)
    y = rounding.forwards(place.y, moving.rate, ulps)
    return eqx.tree_at(lambda a: (a.code, a.stepping.y.y), observed, (code, y))


def _where(keep: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, old)


def _noise(rate: Callable, t: Any, moving: ds.Motion, args: Any, a: Approach) -> Any:
    """The noise of each entry of ẏ as a share of ⟨‖ẏ‖⟩: the largest met lately."""
    place = a.stepping.y
    unit = jnp.exp(-place.log_sizes[1])
    met = rounding.noise(rate, t, place.y, moving.rate, args)
    return jax.tree.map(lambda n, old: jnp.maximum(unit * n, FORGETTING * old), met, a.noise)
