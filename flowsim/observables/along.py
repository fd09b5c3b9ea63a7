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

    `chunk` states are evaluated at once. The compiled code is kept for the next call with the same
    function (a function of the module, or an `eqx.Partial` of one; a new lambda compiles again).

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
    trees = (run.states, run.rates) if with_rates else (run.states,)
    arguments = jax.tree.map(jnp.asarray, trees)
    return jax.tree.map(np.asarray, _mapped(function, arguments, chunk))


@eqx.filter_jit
def _mapped(function: Callable[..., Any], arguments: tuple, chunk: int) -> Any:
    return jax.lax.map(lambda args: function(*args), arguments, batch_size=chunk)
