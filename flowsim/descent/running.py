"""Running a descent: in compiled blocks from Python, or whole inside a transformation."""

import dataclasses
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim import checks
from flowsim.descent import stepping
from flowsim.descent.record import Descent, Origin
from flowsim.outcome import NAMES, Outcome

#: Every step is saved in a run of at most this many; a longer one saves about half as many rows
#: or more, equally spaced. The saved states take at most this many bytes.
ROWS, BYTES = 2001, 2**27
#: Rows of one compiled block, and the memory that they may take.
BLOCK_ROWS, BLOCK_BYTES = 256, 2**26


@eqx.filter_jit
def _begin(problem, y0):
    return stepping.begin(problem, y0)


@eqx.filter_jit
def _block(problem, state, targets, count):
    return stepping.block(problem, state, targets, count)


def save_targets(
    steps: int, *, save_steps: Any, times: Any, row_bytes: int, unit: Any
) -> np.ndarray:
    """The steps to save: those given, those nearest to the times given, or equally spaced ones;
    the last step is always one of them.

    Args:
        unit: length of a step on the clock, or None where steps have no equal lengths.
    """
    if save_steps is not None and times is not None:
        raise ValueError("save_steps and times must not both be given")
    if save_steps is not None:
        return _checked_steps("save_steps", np.asarray(save_steps), steps)
    if times is not None:
        if unit is None:
            raise checks.fail("times", "be left out with a schedule: give save_steps", times)
        times = np.asarray(checks.array("times", times, ndim=1), dtype=float)
        return _checked_steps("times", np.unique(np.rint(times / unit).astype(int)), steps)
    rows = max(2, min(ROWS, BYTES // max(row_bytes, 1)))
    stride = 1 if steps < rows else -(-steps // (rows - 1))
    return np.unique(np.append(np.arange(0, steps + 1, stride), steps))


def _checked_steps(name: str, found: np.ndarray, steps: int) -> np.ndarray:
    if found.ndim != 1 or found.size == 0 or not np.issubdtype(found.dtype, np.integer):
        raise checks.fail(name, "be a list of whole steps", found)
    if np.any(np.diff(found) <= 0):
        raise checks.fail(name, "increase strictly", found)
    if found[0] < 0 or found[-1] > steps:
        raise checks.fail(name, f"lie within the steps 0 to {steps}", found)
    return np.unique(np.append(found, steps))


def run(
    problem: stepping.Problem, y0: Any, targets: np.ndarray, origin: Origin | None, stats: dict
) -> Descent:
    """The descent from y0 through all target steps."""
    if checks.is_traced(problem, y0):
        return _run_traced(problem, y0, targets, stats)
    return _run_blocks(problem, y0, targets, origin, stats)


def _run_blocks(problem, y0, targets, origin, stats) -> Descent:
    started = time.perf_counter()
    row_bytes = sum(x.nbytes for x in jax.tree.leaves(y0))
    rows = max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(row_bytes, 1)))
    state = _begin(problem, y0)
    # no row is asked for: this compiles
    jax.block_until_ready(_block(problem, state, np.zeros(rows, np.int32), np.int32(0)))
    compiled = time.perf_counter()
    pieces = []
    for first in range(0, targets.size, rows):
        wanted = targets[first : first + rows]
        padded = np.pad(wanted, (0, rows - wanted.size)).astype(np.int32)
        state, saved = _block(problem, state, padded, np.int32(wanted.size))
        diverged_at = int(state.diverged_at)
        good = wanted.size if diverged_at < 0 else int(np.sum(wanted < diverged_at))
        pieces.append(jax.tree.map(lambda x, good=good: np.asarray(x[:good]), saved))
        if diverged_at >= 0:
            break
    saved = jax.tree.map(lambda *xs: jnp.asarray(np.concatenate(xs)), *pieces)
    stats = stats | {
        "steps": int(state.k) - 1,
        "evaluations": int(state.k),
        "compile_seconds": compiled - started,
        "seconds": time.perf_counter() - compiled,
    }
    if diverged_at >= 0:
        stats["diverged_at_step"] = diverged_at
    ended = Outcome.of("reached_end" if diverged_at < 0 else "non_finite")
    return _descent(problem, saved, ended, stats, origin=origin, trusted=diverged_at < 0)


def _run_traced(problem, y0, targets, stats) -> Descent:
    problem = dataclasses.replace(problem, stop=False)
    state = stepping.begin(problem, y0)
    targets = jnp.asarray(targets, jnp.int32)
    state, saved = stepping.block(problem, state, targets, jnp.int32(targets.size))
    failed = state.diverged_at >= 0
    codes = [jnp.asarray(NAMES.index(name), jnp.int32) for name in ("non_finite", "reached_end")]
    good = (state.diverged_at < 0) | (targets < state.diverged_at)
    stats = stats | {"steps": state.k - 1, "diverged_at_step": state.diverged_at}
    ended = Outcome(jnp.where(failed, *codes))
    count = jnp.sum(good, dtype=jnp.int32)
    return _descent(problem, saved, ended, stats, trusted=~failed, count=count)


def _descent(problem, saved, outcome, stats, **rest) -> Descent:
    return Descent(
        problem.time(saved.elapsed),
        saved.y,
        outcome,
        rates=saved.rate,
        stats=stats,
        clock=problem.method.clock,
        losses=saved.loss,
        steps=saved.k,
        **rest,
    )
