"""Running a problem: in compiled blocks from Python, or as one block inside a transformation."""

import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim.integrate import sensitivity, stepper
from flowsim.integrate.progress import Progress
from flowsim.integrate.solvers import evaluations
from flowsim.outcome import Outcome
from flowsim.trajectory import Trajectory

#: Rows that one compiled block saves, and the memory that they may take.
ROWS, ROW_BYTES = 256, 2**26
#: A block stops about this often, so that progress shows and an interrupt is heard (seconds).
BLOCK_SECONDS = 0.25


@eqx.filter_jit
def _begin(problem, t0, y0, rows):
    return stepper.begin(problem, t0, y0, rows)


@eqx.filter_jit
def _block(problem, stepping, budget):
    return stepper.block(problem, stepping, budget)


@eqx.filter_jit
def _explain(problem, stepping):
    return stepper.explain_collapse(problem, stepping)


@eqx.filter_jit
def _rates(rate, args, saved):
    """The vector field at the saved rows."""

    def fill(i, rates):
        row = rate(saved.times[i], jax.tree.map(lambda x: x[i], saved.states), args)
        return jax.tree.map(lambda b, r: b.at[i].set(r), rates, row)

    zeros = jax.tree.map(jnp.zeros_like, saved.states)
    return jax.lax.fori_loop(0, saved.count, fill, zeros)


def run_blocks(problem: stepper.Problem, t0: Any, y0: Any, progress: bool) -> Trajectory:
    """The solve from Python: compiled blocks until it ends, rows taken out between them."""
    started = time.perf_counter()
    row_bytes = sum(x.nbytes for x in jax.tree.leaves(y0))
    most = max(2, min(ROWS, ROW_BYTES // max(row_bytes, 1)))
    rows = most if problem.times is None else problem.times.shape[0] + 1
    stepping = _begin(problem, t0, y0, rows)
    stepping = jax.block_until_ready(_block(problem, stepping, jnp.int32(0)))
    compiled = time.perf_counter()
    pieces, budget = [], 8
    with Progress(progress, float(t0)) as bar:
        while stepping.outcome == "running":
            tick = time.perf_counter()
            stepping = jax.block_until_ready(_block(problem, stepping, jnp.int32(budget)))
            if time.perf_counter() - tick < BLOCK_SECONDS:
                budget = min(2 * budget, 2**20)
            bar.update(float(stepping.t), float(problem.end(stepping.record.first)))
            full = problem.times is None and int(stepping.saved.count) == rows
            if full:
                pieces.append(_taken(problem, stepping.saved))
                stepping = eqx.tree_at(lambda s: s.saved, stepping, stepping.saved.emptied())
    if stepping.outcome.failed:
        stepping = eqx.tree_at(lambda s: s.outcome, stepping, _explain(problem, stepping))
    if _end_is_missing(stepping):
        stepping = stepper.with_end(stepping)
    if int(stepping.saved.count):
        pieces.append(_taken(problem, stepping.saved))
    seconds = {
        "compile_seconds": compiled - started,
        "seconds": time.perf_counter() - compiled,
    }
    return _trajectory(problem, stepping, pieces, seconds)


def _end_is_missing(s: stepper.Stepping) -> bool:
    """Whether the last state is not among the rows."""
    count = int(s.saved.count)
    return count == 0 or float(s.saved.times[count - 1]) != float(s.t)


def _taken(problem: stepper.Problem, saved: stepper.Saved) -> tuple[Any, Any, Any]:
    """Times, states and rates of the filled rows, as NumPy arrays."""
    rates = _rates(problem.rate, problem.args, saved)
    count = int(saved.count)
    return jax.tree.map(lambda x: np.array(x[:count]), (saved.times, saved.states, rates))


def _trajectory(problem: stepper.Problem, s: stepper.Stepping, pieces: list, seconds: dict):
    times, states, rates = jax.tree.map(lambda *xs: jnp.asarray(np.concatenate(xs)), *pieces)
    crossings = np.asarray(s.record.times)
    happened = {
        name: np.sort(row[np.isfinite(row)])
        for name, row in zip(problem.events, crossings, strict=True)
    }
    ordered = sorted((row[0], name) for name, row in happened.items() if row.size)
    attempts = int(s.accepted) + int(s.rejected)
    stats = {
        "accepted": int(s.accepted),
        "rejected": int(s.rejected),
        "evaluations": evaluations(problem.solver, attempts),
        **jax.tree.map(float, _integral(problem, s)),
        **seconds,
    }
    return Trajectory(
        times=times,
        states=states,
        rates=rates,
        event_times={name: float(t) for t, name in ordered},
        crossings={name: happened[name] for _, name in ordered},
        outcome=Outcome.of(s.outcome.name),
        stats=stats,
    )


def _integral(problem: stepper.Problem, solved: Any) -> dict[str, Any]:
    """The integral along the run, if one was asked for; it has no derivative."""
    wanted = problem.integrand is not None
    return {"integral": jax.lax.stop_gradient(solved.integral)} if wanted else {}


def run_traced(problem: stepper.Problem, t0: Any, y0: Any) -> Trajectory:
    """The solve inside a JAX transformation: one block, padded rows, both modes of derivatives."""
    times = jnp.stack([t0]) if problem.times is None else problem.times
    problem = eqx.tree_at(lambda p: p.times, problem, times, is_leaf=lambda x: x is None)
    out = sensitivity.solved(sensitivity.opened(problem, t0, y0), t0, y0)
    return Trajectory(
        times=out.times,
        states=out.states,
        rates=None,
        event_times=dict(zip(problem.events, out.crossings[:, 0], strict=True)),
        crossings=dict(zip(problem.events, out.crossings, strict=True)),
        outcome=out.outcome,
        stats={"accepted": out.accepted, "rejected": out.rejected, **_integral(problem, out)},
        count=out.count,
    )
