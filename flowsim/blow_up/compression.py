"""Long thin weights in a basis of their span: memory stays O(h m) (theory.md, section 4)."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

#: Sides up to this are never compressed: the orthogonal basis costs a rounding or two.
SMALL = 64
Weights = tuple[Float[Array, " h"], Float[Array, "h m"], Float[Array, " m"]]


def is_thin(shape: tuple[int, ...]) -> bool:
    """Whether one side is so much longer that a square of it would not fit O(h² + hm)."""
    short, long = sorted(shape)
    return long > max(SMALL, 2 * short)


def compressed(W_v: Array, W_1: Array, W_2: Array) -> tuple[Weights, Callable, Callable]:
    """The same flow with its long side replaced by coordinates in the span of the start.

    For h < m the rows of W_1 and W_2 span at most h + 1 dimensions of R^m and the flow never
    leaves them: W_1 = W_1' Qᵀ, W_2 = Q W_2'. Likewise for h > m.

    Returns:
        The smaller weights, and the maps that take its value and hidden vectors back.
    """
    if W_1.shape[0] > W_1.shape[1]:
        (second, first, w), hidden, value = compressed(W_2, W_1.T, W_v)
        return (w, first.T, second), value, hidden
    basis, coordinates = jnp.linalg.qr(jnp.concatenate([W_1.T, W_2[:, None]], axis=1))
    smaller = W_v, coordinates[:, :-1].T, coordinates[:, -1]
    return smaller, lambda value: value, lambda hidden: basis @ hidden
