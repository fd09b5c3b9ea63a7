"""The stepper: adaptive steps of one diffrax solver, with events, saving and an outcome.

This is the one place that steps a solver. It uses diffrax's solvers, their dense output and its
step-size controller one step at a time, because what flowsim must say at the end of a step (events
on the dense output, blow-up, collapse of the step) has to be said inside the loop.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flowsim.integrate import events as ev
from flowsim.integrate import scales
from flowsim.outcome import Outcome

#: Where a rejected step would fall below this many units in the last place of t, it has collapsed.
COLLAPSE_ULPS = 16
#: Growth time ‖y‖/‖ẏ‖ over the collapsed step: of order one at a blow-up, even a logarithmic one.
BLOW_UP_RATIO = 1e4
#: A trend of shrinking steps is followed down to this ratio of one step to the one before.
LEAST_TREND = 0.2
#: Nodes of Gauss's quadrature on [−1, 1] for integrals over one step.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)


class Problem(eqx.Module):
    """What is integrated and how; arrays in it are data, functions are structure."""

    rate: Callable
    solver: diffrax.AbstractAdaptiveSolver
    args: Any
    events: dict[str, ev.Event]
    end: Callable
    times: Float[Array, "rows"] | None
    rtol: Float[Array, ""]
    atol: Any
    max_steps: Int[Array, ""]
    integrand: Callable | None = None


class Saved(eqx.Module):
    """Rows of saved times and states; `count` of them are filled."""

    times: Float[Array, "rows"]
    states: Any
    count: Int[Array, ""]

    def push(self, t: Any, state: Any, keep: Any = True) -> "Saved":
        """With one more row, if `keep`."""
        row = jnp.where(keep, self.count, self.times.shape[0])
        states = jax.tree.map(lambda b, x: b.at[row].set(x, mode="drop"), self.states, state)
        times = self.times.at[row].set(t, mode="drop")
        return Saved(times, states, self.count + jnp.asarray(keep, self.count.dtype))

    def emptied(self) -> "Saved":
        """The same rows, to be filled again."""
        return Saved(self.times, self.states, jnp.zeros_like(self.count))


class Stepping(eqx.Module):
    """The state of a solve between two attempted steps."""

    t: Float[Array, ""]
    y: Any
    t_next: Float[Array, ""]
    solver_state: Any
    controller_state: Any
    size: Any
    record: ev.Record
    stop: Float[Array, ""]
    last_step: Float[Array, ""]
    saved: Saved
    time_index: Int[Array, ""]
    accepted: Int[Array, ""]
    rejected: Int[Array, ""]
    outcome: Outcome
    integral: Float[Array, ""]


def controller() -> diffrax.PIDController:
    """diffrax's controller on an error that is already divided by its tolerance."""
    return diffrax.PIDController(rtol=1.0, atol=0.0)


def begin(problem: Problem, t0: Array, y0: Any, rows: int) -> Stepping:
    """The state before the first step; the start is saved unless save times are given."""
    term = diffrax.ODETerm(problem.rate)
    rate0 = problem.rate(t0, y0, problem.args)
    record = ev.start(problem.events, lambda t: (y0, rate0), t0, problem.args, t0.dtype)
    t_next = t0 + scales.first_step(y0, rate0, problem.end(record.first) - t0)
    states = jax.tree.map(lambda x: jnp.full((rows, *x.shape), jnp.nan, x.dtype), y0)
    zero = jnp.zeros((), jnp.int32)
    saved = Saved(jnp.full(rows, jnp.inf, t0.dtype), states, zero)
    finite = scales.all_finite(rate0) & scales.all_finite(y0)
    outcome = jnp.where(finite, Outcome.of("running").code, Outcome.of("non_finite").code)
    stepping = Stepping(
        t=t0,
        y=y0,
        t_next=t_next,
        solver_state=problem.solver.init(term, t0, t_next, y0, problem.args),
        controller_state=(jnp.ones((), t0.dtype), jnp.ones((), t0.dtype), jnp.asarray(False)),
        size=jax.tree.map(scales.rms, y0),
        record=record,
        stop=jnp.full_like(t0, jnp.inf),
        last_step=jnp.zeros_like(t0),
        saved=saved if problem.times is not None else saved.push(t0, y0),
        time_index=zero,
        accepted=zero,
        rejected=zero,
        outcome=Outcome(outcome),
        integral=jnp.zeros_like(t0),
    )
    return _save_times(problem, stepping, lambda t: (y0, rate0), t0)


def block(problem: Problem, stepping: Stepping, budget: Any) -> Stepping:
    """Steps until the solve ends, the rows are full, or `budget` more attempts are made."""
    limit = stepping.accepted + stepping.rejected + budget
    rows = stepping.saved.times.shape[0]

    def going(s: Stepping) -> Bool[Array, ""]:
        room = (s.saved.count < rows) | (problem.times is not None)
        return (
            (s.outcome.code == Outcome.of("running").code)
            & room
            & (s.accepted + s.rejected < limit)
        )

    return jax.lax.while_loop(going, lambda s: attempt(problem, s), stepping)


def with_end(s: Stepping) -> Stepping:
    """The last state as one more row, if it is not saved yet."""
    count = s.saved.count
    last = s.saved.times.at[count - 1].get(mode="fill", fill_value=jnp.inf)
    unsaved = (count == 0) | (last != s.t)
    return eqx.tree_at(lambda s: s.saved, s, s.saved.push(s.t, s.y, unsaved))


def attempt(problem: Problem, s: Stepping) -> Stepping:
    """One attempted step, kept or not."""
    term, solver = diffrax.ODETerm(problem.rate), problem.solver
    t1 = jnp.minimum(jnp.minimum(s.t_next, problem.end(s.record.first)), s.stop)
    y1, error, dense_info, solver_state, result = solver.step(
        term, s.t, t1, s.y, problem.args, s.solver_state, jnp.asarray(False)
    )
    size = jax.tree.map(lambda a, y: jnp.maximum(a, scales.rms(y)), s.size, y1)
    ratio = scales.error_ratio(error, s.y, y1, size, problem.rtol, problem.atol)
    finite = scales.all_finite(y1)
    solved = finite & (result == diffrax.RESULTS.successful)
    ratio = jnp.where(solved & jnp.isfinite(ratio), ratio, jnp.inf)
    kept, t_next, controller_state = _next_step(s, t1, ratio, solver.error_order(term))
    interpolation = solver.interpolation_cls(t0=s.t, t1=t1, **dense_info)

    def dense(t):
        return jax.jvp(interpolation.evaluate, (t,), (jnp.ones_like(t),))

    record, stop = _find_events(problem, s, dense, t1, kept)
    landed = kept & (stop > t1) | (kept & (s.stop <= t1))
    step = Stepping(
        t=jnp.where(landed, t1, s.t),
        y=_where(landed, y1, s.y),
        t_next=jnp.where(kept & ~landed, stop, t_next),
        solver_state=_where(landed, solver_state, s.solver_state),
        controller_state=controller_state,
        size=_where(landed, size, s.size),
        record=record,
        stop=stop,
        last_step=jnp.where(landed, t1 - s.t, s.last_step),
        saved=s.saved,
        time_index=s.time_index,
        accepted=s.accepted + landed.astype(jnp.int32),
        rejected=s.rejected + (~landed).astype(jnp.int32),
        outcome=s.outcome,
        integral=s.integral + jnp.where(landed, _integral(problem, dense, s.t, t1), 0),
    )
    return _judge(problem, _save(problem, step, dense, landed), ~kept, finite)


def _integral(problem: Problem, dense: ev.Dense, t0: Any, t1: Any) -> Any:
    """∫ integrand(t, y, ẏ) dt over one step, by Gauss's quadrature on its dense output."""
    if problem.integrand is None:
        return jnp.zeros_like(t0)

    middle, half = (t0 + t1) / 2, (t1 - t0) / 2
    times = middle + half * jnp.asarray(NODES, t0.dtype)
    values = jax.lax.map(lambda t: problem.integrand(t, *dense(t)), times)
    return half * jnp.dot(jnp.asarray(WEIGHTS, t0.dtype), values)


def _next_step(s: Stepping, t1: Any, ratio: Any, order: Any) -> tuple[Any, Any, Any]:
    """Whether a step of this error is kept, the end of the next one, the controller's state."""
    one = jnp.ones_like(ratio)
    kept, _, t_next, _, state, _ = controller().adapt_step_size(
        s.t, t1, one, one, None, ratio, order, s.controller_state
    )
    return kept, _follow_trend(s, t1, t_next, kept), state


def _follow_trend(s: Stepping, t1: Any, t_next: Any, kept: Any) -> Any:
    """Shrinks the next step where the last two shrank: diffrax's controller never shortens a step
    after an accepted one, so that towards a blow-up every other step would be refused."""
    step = t1 - s.t
    trend = jnp.where(s.last_step > 0, jnp.clip(step / s.last_step, LEAST_TREND, 1), 1)
    return jnp.where(kept, t1 + (t_next - t1) * trend, t_next)


def _where(keep: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, old)


def _find_events(problem: Problem, s: Stepping, dense: ev.Dense, t1: Any, kept: Any) -> Any:
    """Crossings inside a step, and where a terminal one wants the run to stop (else infinity).

    The step in which a stop is found is not taken: the next one lands on it.
    """
    if not problem.events:
        return s.record, s.stop
    exact = partial(_step_to, problem, s)
    return jax.lax.cond(
        kept & jnp.isinf(s.stop),
        lambda: ev.advance(problem.events, s.record, dense, exact, s.t, t1, problem.args),
        lambda: (s.record, s.stop),
    )


def _step_to(problem: Problem, s: Stepping, t: Any) -> tuple[Any, Any]:
    """State and rate at a time inside the current step, by a step of its own: more accurate than
    the dense output, most of all its derivative."""
    made_jump = jnp.asarray(False)
    term = diffrax.ODETerm(problem.rate)
    y, *_ = problem.solver.step(term, s.t, t, s.y, problem.args, s.solver_state, made_jump)
    return y, problem.rate(t, y, problem.args)


def _save(problem: Problem, s: Stepping, dense: ev.Dense, landed: Any) -> Stepping:
    if problem.times is None:
        return eqx.tree_at(lambda s: s.saved, s, s.saved.push(s.t, s.y, landed))
    return _save_times(problem, s, dense, s.t)


def _save_times(problem: Problem, s: Stepping, dense: ev.Dense, t1: Any) -> Stepping:
    """Saves the states at all requested times up to t1."""
    times = problem.times
    if times is None:
        return s

    def due(carry):
        index, _ = carry
        return (index < times.shape[0]) & (times.at[index].get(mode="clip") <= t1)

    def save(carry):
        index, saved = carry
        t = times[index]
        state = _where(t == t1, s.y, dense(t)[0])
        return index + 1, saved.push(t, state)

    index, saved = jax.lax.while_loop(due, save, (s.time_index, s.saved))
    return eqx.tree_at(lambda s: (s.time_index, s.saved), s, (index, saved))


def _judge(problem: Problem, s: Stepping, refused: Any, finite: Any) -> Stepping:
    """The outcome after an attempt: still running, or how the solve ended."""
    collapsed = refused & (s.t_next - s.t <= _smallest_step(s.t))
    failure = jnp.where(finite, Outcome.of("step_too_small").code, Outcome.of("non_finite").code)
    reached = s.t >= problem.end(s.record.first)
    spent = s.accepted + s.rejected >= problem.max_steps
    code = jnp.where(spent, Outcome.of("too_many_steps").code, s.outcome.code)
    code = jnp.where(collapsed, failure, code)
    code = jnp.where(reached, Outcome.of("reached_end").code, code)
    code = jnp.where(s.t >= s.stop, Outcome.of("event").code, code)
    return eqx.tree_at(lambda s: s.outcome, s, Outcome(code))


def _smallest_step(t: Any) -> Any:
    """Steps shorter than this no longer move t as they should."""
    kind = jnp.finfo(t.dtype)
    return COLLAPSE_ULPS * kind.eps * jnp.abs(t) + kind.tiny


def explain_collapse(problem: Problem, s: Stepping) -> Outcome:
    """The outcome, with a collapse of the step told from a blow-up by how fast the state grows."""
    collapsed = (s.outcome == "step_too_small") | (s.outcome == "non_finite")
    growth_time = scales.growth_time(s.y, problem.rate(s.t, s.y, problem.args))
    blows_up = (growth_time > 0) & (growth_time <= BLOW_UP_RATIO * _smallest_step(s.t))
    return Outcome(jnp.where(collapsed & blows_up, Outcome.of("blow_up").code, s.outcome.code))
