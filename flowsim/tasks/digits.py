"""Handwritten digits: even against odd, the pixel rows of an image as tokens."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.tasks.task import Task

#: Largest grey value of scikit-learn's digits.
WHITE = 16.0


def digits(width: int = 16, *, key: Any = None) -> Task:
    """scikit-learn's handwritten digits (n = 1797), even (+1) against odd (−1).

    X_ij = p_ij E + P_j: the 8 pixel rows p_ij ∈ [0, 1]^8 of an image are its tokens, mapped to
    `width` by a fixed Gaussian E with entries N(0, 1/d) and placed by fixed positions P_j with
    entries N(0, 1/d), so that tokens have norms of order one at every width d.

    Args:
        width: token width d.
        key: of the random map; None is `jax.random.key(0)`, the map of the documented figures.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    d = checks.width("width", width)
    rows, y = _images()
    key = jax.random.key(0) if key is None else checks.key("key", key)
    map_key, position_key = jax.random.split(key)
    embedding = _gaussian(map_key, (rows.shape[2], d))
    positions = _gaussian(position_key, (rows.shape[1], d))
    return Task(rows.astype(embedding.dtype) @ embedding + positions, y, name="digits")


def _gaussian(key: Array, shape: tuple[int, int]) -> Float[np.ndarray, "rows d"]:
    """Independent entries N(0, 1/d)."""
    draw = np.asarray(jax.random.normal(key, shape, dtype=jnp.result_type(float)))
    return draw / np.sqrt(shape[1], dtype=draw.dtype)


def _images() -> tuple[Float[np.ndarray, "n 8 8"], Any]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "the digits task needs scikit-learn; install it with: pip install 'flowsim[data]'"
        ) from error
    found = load_digits()
    return found.images / WHITE, np.where(found.target % 2 == 0, 1, -1)
