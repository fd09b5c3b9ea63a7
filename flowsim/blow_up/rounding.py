"""What rounding does to a solution: how noisy its rate is, and a solve that rounds one way."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

#: The state is moved by one to two times so many units in its last place to measure the noise.
PROBE_ULPS = 8
#: Fractional part of the golden ratio: its multiples are spread evenly over a unit interval.
GOLDEN = 0.6180339887498949


def noise(rate: Callable, t: Any, y: Any, speed: Any, args: Any) -> Any:
    """By how much each entry of ẏ changes if t and all entries of y move by one or two units in
    their last places, averaged over some.

    No two entries move alike, so that cancellation between them is not missed; rounding inside
    the rate is met as well.
    """
    moved = jax.tree.map(lambda x: x * (1 + PROBE_ULPS * jnp.finfo(x.dtype).eps * _spread(x)), y)
    later = t * (1 + PROBE_ULPS * jnp.finfo(t.dtype).eps)
    away = rate(later, moved, args)
    return jax.tree.map(lambda a, b: jnp.abs(a - b) / PROBE_ULPS, away, speed)


def _spread(x: Array) -> Array:
    """Numbers between one and two, all different, in the shape of an array."""
    numbers = 1 + (GOLDEN * np.arange(1, x.size + 1)) % 1
    return jnp.asarray(numbers.reshape(x.shape), x.dtype)


def forwards(y: Any, speed: Any, ulps: Any) -> Any:
    """y moved by so many units in the last place of each entry, each the way it is going."""
    return jax.tree.map(
        lambda x, f: x + ulps * jnp.finfo(x.dtype).eps * jnp.abs(x) * jnp.sign(f), y, speed
    )
