"""Frobenius norms and unit vectors that neither overflow nor underflow (theory.md, section 10).

Entries are divided by the largest of them before they are squared, so ‖W‖ = 1e-20 in float32 is as
good as ‖W‖ = 1. A zero matrix has norm 0 and a zero vector stays zero; gradients there are 0.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.observables.named import by_name


def scaled(W: Float[Array, "*shape"], axis: int | None = None) -> tuple[Array, Array]:
    """(W/s, s) with s = max |W| over `axis` (kept, of length 1), or over all entries."""
    size = jax.lax.stop_gradient(jnp.max(jnp.abs(W), axis=axis, keepdims=axis is not None))
    usable = (size > 0) & (size < jnp.inf)
    return W / jnp.where(usable, size, jnp.ones_like(size)), size


@jax.jit
def frobenius(W: Float[Array, "*shape"]) -> Float[Array, ""]:
    """‖W‖_F, the root of the sum of squares of all entries."""
    unit, size = scaled(W)
    return size * _root(jnp.sum(unit**2))


def norms(theta: Any) -> dict[str, Float[Array, ""]]:
    """‖W‖_F of every matrix of a state, by name."""
    return by_name(frobenius, theta)


def unit_vectors(vectors: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    """Vectors along `axis` divided by their lengths; zero vectors stay zero."""
    unit, _ = scaled(vectors, axis)
    length = _root(jnp.sum(unit**2, axis=axis, keepdims=True))
    return unit / jnp.where(length > 0, length, jnp.ones_like(length))


def _root(square: Array) -> Array:
    """√square, with gradient 0 (not infinity) at 0."""
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, jnp.ones_like(square), square)))
