"""Soft counts of the directions that a matrix uses (theory.md, section 10)."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.observables.named import by_name
from flowsim.observables.norms import scaled


@jax.jit
def singular_shares(W: Float[Array, "a b"]) -> Float[Array, "r"]:
    """σ_i/σ_1 in falling order, r = min(a, b); all zero for a zero matrix."""
    values = jnp.linalg.svd(scaled(W)[0], compute_uv=False)
    top = values[0]
    return values / jnp.where(top == 0, jnp.ones_like(top), top)


def effective_rank(W: Float[Array, "a b"]) -> Float[Array, ""]:
    """Σ_i σ_i / σ_1, the effective rank of the authors' figures; 0 for a zero matrix.

    It lies between 1 (rank one) and min(a, b) (all singular values equal); a square Gaussian
    matrix of width d has about 0.42 d.

    >>> float(effective_rank(jnp.diag(jnp.array([2.0, 1.0, 1.0]))))
    2.0
    """
    return jnp.sum(singular_shares(W))


def stable_rank(W: Float[Array, "a b"]) -> Float[Array, ""]:
    """Σ_i σ_i² / σ_1² = ‖W‖_F²/‖W‖_2²; 0 for a zero matrix."""
    return jnp.sum(singular_shares(W) ** 2)


def effective_ranks(theta: Any) -> dict[str, Float[Array, ""]]:
    """Effective rank of every matrix (two axes or more) of a state, by name."""
    return by_name(effective_rank, theta, least_axes=2)


def stable_ranks(theta: Any) -> dict[str, Float[Array, ""]]:
    """Stable rank of every matrix (two axes or more) of a state, by name."""
    return by_name(stable_rank, theta, least_axes=2)
