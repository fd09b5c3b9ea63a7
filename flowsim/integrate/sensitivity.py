"""Derivatives of a solve: of its states, its end and the times of its events.

The derivative with respect to all perturbed numbers x (of y0, t0, args, the ends, the flow and the
conditions) is carried along as Y = ∂y/∂x, Ẏ = (∂f/∂y) Y + ∂f/∂x, one column a number, in a second
solve with its own error control. An event g(t, y, x) = 0 then moves by
δt = −(∂g/∂y Y δx + ∂g/∂x δx)/(dg/dt), a row at time t by Y δx + ẏ δt. All of it is linear in δx
without a loop, so that both modes, and derivatives of derivatives, follow from one rule.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from flowsim.integrate import events as ev
from flowsim.integrate import stepper
from flowsim.outcome import Outcome


class Solved(eqx.Module):
    """What a traced solve returns; every leaf is an array."""

    times: Float[Array, "rows"]
    states: Any
    crossings: Float[Array, "events kept"]
    outcome: Outcome
    count: Int[Array, ""]
    accepted: Int[Array, ""]
    rejected: Int[Array, ""]
    integral: Float[Array, ""]


class Inputs(eqx.Module):
    """A solve as a function of its perturbed numbers, laid out as one vector x."""

    fixed: Any
    unravel: Any = eqx.field(static=True)

    def at(self, x: Array) -> tuple[stepper.Problem, Array, Any]:
        """Problem, t0 and y0 at x."""
        return eqx.combine(self.unravel(x), self.fixed)

    def rate(self, t: Any, y: Any, x: Array) -> Any:
        """f(t, y; x)."""
        problem = self.at(x)[0]
        return problem.rate(t, y, problem.args)

    def varied(self, t: Any, state: tuple[Any, Any], x: Array) -> tuple[Any, Any]:
        """The rates of y and of Y, whose leaves have one row for each entry of x."""
        y, columns = state
        rate, push = jax.linearize(lambda y, x: self.rate(t, y, x), y, x)
        return rate, jax.vmap(push)(columns, jnp.eye(x.size, dtype=x.dtype))

    def start(self, x: Array) -> tuple[Any, Any]:
        """y and Y at t0: a later start leaves less time to move."""
        _, t0, y0 = self.at(x)
        frozen = jax.lax.stop_gradient(x)

        def moved(x):
            _, start, y = self.at(x)
            rate = self.rate(t0, y0, frozen)
            return jax.tree.map(lambda a, r: a - r * (start - t0), y, rate)

        _, push = jax.linearize(moved, x)
        return y0, jax.vmap(push)(jnp.eye(x.size, dtype=x.dtype))

    def signals(self, t: Any, y: Any, x: Array) -> Float[Array, "events"]:
        """All conditions."""
        problem = self.at(x)[0]
        here = (y, self.rate(t, y, x))
        return ev.signals(problem.events, lambda _: here, t, problem.args, jnp.result_type(t))


def opened(problem: stepper.Problem, t0: Any, y0: Any) -> stepper.Problem:
    """The problem with the arrays that its plain functions close over as data of their own, so
    that they can be differentiated too."""
    at = (t0, y0, problem.args)

    def convert(function, *arguments):
        if isinstance(function, eqx.Module | jax.tree_util.Partial):
            return function
        return eqx.filter_closure_convert(function, *arguments)

    rate = convert(problem.rate, *at)
    opened = [
        eqx.tree_at(lambda e: e.condition, e, convert(e.condition, *at, *[y0] * e.with_rate))
        for e in problem.events.values()
    ]
    events = dict(zip(problem.events, opened, strict=True))
    return eqx.tree_at(lambda p: (p.rate, p.events), problem, (rate, events))


@eqx.filter_custom_jvp
def solved(problem: stepper.Problem, t0: Any, y0: Any) -> Solved:
    """The whole solve as one block, with padded rows; the problem names its times."""
    assert problem.times is not None
    stepping = stepper.begin(problem, t0, y0, problem.times.shape[0] + 1)
    stepping = stepper.with_end(stepper.block(problem, stepping, problem.max_steps))
    saved = stepping.saved
    return Solved(
        times=saved.times,
        states=saved.states,
        crossings=stepping.record.times,
        outcome=stepper.explain_collapse(problem, stepping),
        count=saved.count,
        accepted=stepping.accepted,
        rejected=stepping.rejected,
        integral=stepping.integral,
    )


@solved.def_jvp
def _solved_jvp(primals, tangents):
    out = solved(*primals)
    is_none = lambda x: x is None  # noqa: E731
    chosen = jax.tree.map(lambda p, t: None if t is None else p, primals, tangents, is_leaf=is_none)
    fixed = jax.tree.map(lambda p, t: p if t is None else None, primals, tangents, is_leaf=is_none)
    x, unravel = ravel_pytree(chosen)
    inputs, dx = Inputs(fixed, unravel), ravel_pytree(tangents)[0]
    row_states, crossing_states = _states_at(inputs, x, out)
    d_crossings = _moved_events(inputs, x, dx, out.crossings, crossing_states)
    d_times = _moved_rows(inputs, x, dx, out, d_crossings)
    d_states = jax.vmap(lambda *row: _moved_state(inputs, x, dx, *row))(
        out.times, row_states, d_times
    )
    still = jax.tree.map(lambda _: None, out)
    moving = lambda s: (s.times, s.states, s.crossings)  # noqa: E731
    return out, eqx.tree_at(moving, still, (d_times, d_states, d_crossings), is_leaf=is_none)


def _states_at(inputs: Inputs, x: Array, out: Solved) -> tuple[Any, Any]:
    """(y, Y) at the rows and at the crossings; those at an infinite time are the start's."""
    problem, t0, _ = inputs.at(x)
    wanted = jnp.concatenate([out.times, out.crossings.ravel()])
    times = jnp.where(jnp.isfinite(wanted), wanted, t0)
    order = jnp.argsort(times)
    varied = stepper.Problem(
        inputs.varied, problem.solver, x, {}, _End(jnp.max(times)), times[order],
        problem.rtol, None, problem.max_steps,
    )  # fmt: skip
    states = solved(varied, t0, inputs.start(x)).states
    states = jax.tree.map(lambda s: jnp.zeros_like(s[:-1]).at[order].set(s[:-1]), states)
    rows = out.times.size
    split = lambda s: (s[:rows], s[rows:].reshape(*out.crossings.shape, *s.shape[1:]))  # noqa: E731
    pairs = jax.tree.map(split, states)
    return jax.tree.transpose(jax.tree.structure(states), jax.tree.structure((0, 0)), pairs)


class _End(eqx.Module):
    time: Array

    def __call__(self, first: Any) -> Any:
        return self.time


def _along(dx: Array, columns: Any) -> Any:
    """Y δx."""
    return jax.tree.map(lambda c: jnp.tensordot(dx, c, 1), columns)


def _moved_state(inputs, x, dx, t, state, dt):
    """Change of a row's state; a padded row stays."""
    y, columns = state
    valid = jnp.isfinite(t)
    rate = inputs.rate(jnp.where(valid, t, 0), y, x)
    change = jax.tree.map(lambda c, r: c + r * dt, _along(dx, columns), rate)
    return jax.tree.map(lambda c: jnp.where(valid, c, 0), change)


def _moved_events(inputs, x, dx, crossings, states):
    """Change of each crossing's time; NaN for events at a fraction of a peak."""
    events = inputs.at(x)[0].events

    def moved(index, t, state):
        y, columns = state
        valid = jnp.isfinite(t)
        t = jnp.where(valid, t, inputs.at(x)[1])
        signal = lambda t, y, x: inputs.signals(t, y, x)[index]  # noqa: E731
        still, one = jnp.zeros_like(t), jnp.ones_like(t)
        rate = inputs.rate(t, y, x)
        _, slope = jax.jvp(signal, (t, y, x), (one, rate, jnp.zeros_like(x)))
        _, change = jax.jvp(signal, (t, y, x), (still, _along(dx, columns), dx))
        return jnp.where(valid, -change / jnp.where(valid, slope, 1), 0)

    if not events:
        return jnp.zeros_like(crossings)
    each_crossing = jax.vmap(moved, in_axes=(None, 0, 0))
    changes = jax.vmap(each_crossing)(jnp.arange(len(events)), crossings, states)
    known = np.asarray([1.0 if event.decline is None else np.nan for event in events.values()])
    return jnp.where(jnp.isfinite(crossings), changes * known[:, None], 0)


def _moved_rows(inputs, x, dx, out, d_crossings):
    """Change of each row's time: of a requested one as requested, of the last as the end's."""
    problem = inputs.at(x)[0]
    first = out.crossings[:, 0]
    _, d_requested = jax.jvp(lambda x: inputs.at(x)[0].times, (x,), (dx,))
    _, d_end = jax.jvp(
        lambda x, first: jnp.asarray(inputs.at(x)[0].end(first)),
        (x, first), (dx, d_crossings[:, 0]),
    )  # fmt: skip
    d_end = jnp.where(out.outcome == "reached_end", d_end, 0)
    terminal = np.asarray([e.terminal for e in problem.events.values()], bool)
    if terminal.any():
        stopping = jnp.argmin(jnp.where(terminal, first, jnp.inf))
        d_end = jnp.where(out.outcome == "event", d_crossings[stopping, 0], d_end)
    requested = jnp.append(problem.times, jnp.nan)
    change = jnp.where(out.times == requested, jnp.append(d_requested, 0), d_end)
    return jnp.where(jnp.isfinite(out.times), change, 0)
