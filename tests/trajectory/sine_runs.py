"""A run whose states and rates are known."""

import jax.numpy as jnp
import numpy as np

from flowsim.outcome import Outcome
from flowsim.trajectory import Trajectory


def sine_run(times, **kwargs):
    """sin t, cos t as a two-leaf state with exact rates."""
    times = np.asarray(times, dtype=float)
    states = {"a": jnp.sin(times), "b": jnp.stack([jnp.cos(times), 2 * jnp.sin(times)], 1)}
    rates = {"a": jnp.cos(times), "b": jnp.stack([-jnp.sin(times), 2 * jnp.cos(times)], 1)}
    kwargs = {"rates": rates} | kwargs
    return Trajectory(times, states, Outcome.of("reached_end"), **kwargs)
