"""An observable along the saved states of a run, compiled once and bounded in memory."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim import checks
from flowsim.trajectory import Trajectory


def along(
    trajectory: Trajectory,
    function: Callable[..., Any],
    *,
    with_rates: bool = False,
    chunk: int = 32,
) -> Any:
    """function(state) at every saved time, as NumPy arrays with time first.

    `chunk` states are evaluated at once, which bounds the memory; the last chunk is filled up with
    repetitions of the last state. The compiled code is kept for the next run of any length with
    the same function (one of a module, or an `eqx.Partial` of one; a new lambda compiles again).

    Args:
        trajectory: one run; rows that are padding are dropped.
        function: of one state; of one state and its rate of change with `with_rates`.
        with_rates: pass `trajectory.rates` too.
        chunk: how many states are evaluated together.
    """
    chunk = checks.integer("chunk", chunk)
    if with_rates and trajectory.rates is None:
        raise checks.fail("trajectory.rates", "be saved for this observable", None)
    run = trajectory.trim()
    count = len(run)
    trees = (run.states, run.rates) if with_rates else (run.states,)
    on_host = jax.tree.map(np.asarray, trees)
    parts = []
    for start in range(0, count, chunk):
        rows = np.minimum(np.arange(start, start + min(chunk, count)), count - 1)
        part = _mapped(function, jax.tree.map(lambda W, rows=rows: jnp.asarray(W[rows]), on_host))
        parts.append(jax.tree.map(np.asarray, part))
    return jax.tree.map(lambda *blocks: np.concatenate(blocks)[:count], *parts)


@eqx.filter_jit
def _mapped(function: Callable[..., Any], arguments: tuple) -> Any:
    return jax.vmap(function)(*arguments)
