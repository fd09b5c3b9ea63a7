"""Cosine similarity of a matrix's rows, reordered so that groups show (theory.md, section 10)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flowsim.observables.norms import unit_vectors


@jax.jit
def cosine_similarity(W: Float[Array, "a b"]) -> Float[Array, "a a"]:
    """W̃W̃ᵀ, W̃ the matrix W with rows of unit length; a zero row has similarity 0 with all."""
    rows = unit_vectors(W)
    return rows @ rows.T


def similarity_order(similarity: Float[Array, "a a"]) -> Int[Array, "a"]:
    """The order that sorts the top eigenvector from its largest entry down.

    Its sign is free; the larger group of rows is put first (a positive sum of entries).
    """
    top = jnp.linalg.eigh(similarity)[1][:, -1]
    sign = jnp.where(jnp.sum(top) < 0, -1.0, 1.0).astype(top.dtype)
    return jnp.argsort(-sign * top, stable=True)


@jax.jit
def reordered_similarity(W: Float[Array, "a b"]) -> Float[Array, "a a"]:
    """The cosine similarity matrix with rows and columns in `similarity_order`.

    A condensed matrix shows two blocks of +1, the rows along n and those along −n, and −1 between
    them; a random one shows its diagonal alone.
    """
    similarity = cosine_similarity(W)
    order = similarity_order(similarity)
    return similarity[order][:, order]
