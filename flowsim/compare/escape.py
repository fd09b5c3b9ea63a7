"""When a run escapes: levels of a growing size, and the times at which they are reached."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from flowsim.network import Parameters
from flowsim.trajectory import Trajectory
from flowsim.trajectory.hermite import interpolate

#: Levels between the start and the escape at which delays are taken.
LEVELS = 17
#: Halvings of the saved interval in which a level is crossed.
BISECTIONS = 60


def size(run: Trajectory) -> Float[np.ndarray, "T"]:
    """‖W_2‖ along a run of the transformer, the norm of the whole state along any other."""
    states = run.states.W_2 if isinstance(run.states, Parameters) else run.states
    return whole_norm(states)


def log_size_rate(run: Trajectory) -> Float[np.ndarray, "T"] | None:
    """d(log size)/dt from the saved rates; None without rates."""
    if run.rates is None:
        return None
    states, rates = run.states, run.rates
    if isinstance(states, Parameters):
        states, rates = states.W_2, rates.W_2
    pairs = zip(jax.tree.leaves(states), jax.tree.leaves(rates), strict=True)
    inner = [_rows(np.asarray(x, float) * np.asarray(r, float)).sum(axis=1) for x, r in pairs]
    return np.sum(inner, axis=0) / whole_norm(states) ** 2


def _rows(x: Any) -> np.ndarray:
    return x.reshape(x.shape[0], -1)


def whole_norm(states: Any) -> Float[np.ndarray, "T"]:
    """Euclidean norm of all leaves at each time."""
    leaves = [np.asarray(x, dtype=np.float64) for x in jax.tree.leaves(states)]
    return np.sqrt(np.sum([np.sum(_rows(x) ** 2, axis=1) for x in leaves], axis=0))


def escape_level(run: Trajectory, first: Any, second: Any) -> float | None:
    """√ε where both sizes pass it (ε the scale of the start), else the geometric middle of what
    they have in common; None where they do not grow together."""
    start, top = max(first[0], second[0]), min(first.max(), second.max())
    if not top > 2 * start > 0:
        return None
    if isinstance(run.states, Parameters):
        scale = np.sqrt(np.mean(np.concatenate([_row(x) for x in jax.tree.leaves(run.states)])))
        if start < np.sqrt(scale) <= top:
            return float(np.sqrt(scale))
    return float(np.sqrt(start * top))


def _row(leaf: Any) -> np.ndarray:
    """Squares of the entries at the first time."""
    return np.ravel(np.asarray(leaf[0], dtype=np.float64)) ** 2


def reaching_times(
    times: Float[np.ndarray, "T"],
    sizes: Float[np.ndarray, "T"],
    levels: Float[np.ndarray, "L"],
    slopes: Float[np.ndarray, "T"] | None = None,
) -> Float[np.ndarray, "L"]:
    """When the size first reaches each level, by interpolation of log size between rows.

    Args:
        slopes: d(log size)/dt at the rows. The states of a descent are exact on its path, but its
            rates −∇L are those of the flow: leave them out there.
    Returns:
        Times; NaN for a level that is not reached.
    """
    rates = None if slopes is None else [slopes]
    logs, wanted = np.log(sizes), np.log(levels)
    reached = logs[None, :] >= wanted[:, None]
    after = np.argmax(reached, axis=1)
    high, low = times[after].copy(), times[np.maximum(after - 1, 0)].copy()
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        above = interpolate(times, [logs], rates, middle)[0] >= wanted
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    return np.where(reached.any(axis=1), high, np.nan)
