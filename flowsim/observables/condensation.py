"""How many neurons point along one direction (theory.md, section 10).

The condensation rate is the share of vectors whose |cosine| to a direction is at least 0.95; zero
vectors are not counted, and the rate of no vectors is 0.
"""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.observables.norms import scaled, unit_vectors

Vectors = Literal["columns", "rows"]
THRESHOLD = 0.95


def abs_cosines(
    W: Float[Array, "a b"], direction: Float[Array, "e"], vectors: Vectors = "columns"
) -> Float[Array, "c"]:
    """|cos| of every column (or row) of W to a direction, of any length ≠ 0; 0 for zero vectors."""
    rows = W.T if vectors == "columns" else W
    return jnp.abs(unit_vectors(rows) @ unit_vectors(direction))


@partial(jax.jit, static_argnames="vectors")
def condensation_rate(
    W: Float[Array, "a b"],
    direction: Float[Array, "e"],
    vectors: Vectors = "columns",
    threshold: float | Array = THRESHOLD,
) -> Float[Array, ""]:
    """Share of the non-zero columns (or rows) of W with |cos| ≥ threshold to a direction."""
    cosines = abs_cosines(W, direction, vectors)
    counted = jnp.any(W != 0, axis=0 if vectors == "columns" else 1)
    hits = jnp.sum(((cosines >= threshold) & counted).astype(W.dtype))
    return hits / jnp.maximum(jnp.sum(counted.astype(W.dtype)), 1.0)


def top_direction(W: Float[Array, "a b"], vectors: Vectors = "columns") -> Float[Array, "e"]:
    """The top left singular vector of W for its columns, the top right one for its rows."""
    left, _, right = jnp.linalg.svd(scaled(W)[0], full_matrices=False)
    return left[:, 0] if vectors == "columns" else right[0]


@partial(jax.jit, static_argnames="vectors")
def self_condensation(
    W: Float[Array, "a b"], vectors: Vectors = "columns", threshold: float | Array = THRESHOLD
) -> Float[Array, ""]:
    """Condensation rate against the matrix's own top singular direction."""
    return condensation_rate(W, top_direction(W, vectors), vectors, threshold)


@jax.jit
def condensation_of(
    theta: Any,
    v: Float[Array, "d"],
    n: Float[Array, "h"] | None = None,
    m: Float[Array, "m"] | None = None,
    u1: Float[Array, "d"] | None = None,
    v1: Float[Array, "d"] | None = None,
) -> dict[str, Float[Array, ""]]:
    """Every condensation rate of theory.md, section 10, whose direction is given.

    Args:
        theta: a state with W_Q, W_K, W_V and W_1.
        v: condensation direction of the task.
        n, m: directions of w and W_2 at blow-up (section 5).
        u1, v1: top singular vectors of the key-query matrix F (section 7).
    """
    table = [
        ("W_V columns to v", theta.W_V, v, "columns"),
        ("W_V rows to n", theta.W_V, n, "rows"),
        ("W_1 columns to n", theta.W_1, n, "columns"),
        ("W_1 rows to m", theta.W_1, m, "rows"),
        ("W_Q columns to u1", theta.W_Q, u1, "columns"),
        ("W_K columns to v1", theta.W_K, v1, "columns"),
        ("W_Q columns to v", theta.W_Q, v, "columns"),
        ("W_K columns to v", theta.W_K, v, "columns"),
    ]
    return {
        name: condensation_rate(W, direction, vectors)
        for name, W, direction, vectors in table
        if direction is not None
    }
