"""What the leading-order flow conserves: matrices, Hamiltonian, commuting integrals.

ẇ = W_1 W_2, Ẇ_1 = w ⊗ W_2, Ẇ_2 = W_1ᵀ w (theory.md, sections 3 and 4). Every quantity here is a
pure function of the weights (w: `W_v`, (h,); W_1, (h, m); W_2, (m,)), at any scale.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def energy(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Float[Array, ""]:
    """E = w·W_1 W_2 [CL 5], not conserved: Ė = ‖∇E‖² ≥ 0."""
    return W_v @ (W_1 @ W_2)


def value_invariant(W_v: Float[Array, " h"], W_1: Float[Array, "h m"]) -> Float[Array, "h h"]:
    """A = w wᵀ − W_1 W_1ᵀ."""
    return jnp.outer(W_v, W_v) - W_1 @ W_1.T


def hidden_invariant(W_1: Float[Array, "h m"], W_2: Float[Array, " m"]) -> Float[Array, "m m"]:
    """B = W_1ᵀW_1 − W_2 W_2ᵀ."""
    return W_1.T @ W_1 - jnp.outer(W_2, W_2)


def norm_gap(W_v: Float[Array, " h"], W_2: Float[Array, " m"]) -> Float[Array, ""]:
    """D = ‖w‖² − ‖W_2‖²."""
    return jnp.sum(W_v * W_v) - jnp.sum(W_2 * W_2)


def hamiltonian(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Float[Array, ""]:
    """H = ½‖x‖² − ½‖w‖⁴ + ½ D‖w‖² + ½ wᵀAw = ½(‖x‖² − ‖W_1ᵀw‖² + D‖w‖²), x = W_1 W_2."""
    rates = _squared_rates(W_v, W_1, W_2)
    return 0.5 * (rates[0] - rates[1] + norm_gap(W_v, W_2) * jnp.sum(W_v * W_v))


def nondegeneracy(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Float[Array, ""]:
    """The left side of [CL 10]: 2H − D² if D ≥ 0, 2H if D < 0.

    It is minus or plus twice the Hamiltonian of the smaller of the two systems. Not zero, with
    D ≠ 0, it makes a start non-degenerate (Definition 4), and then T* is finite for E ≤ 0 too.
    """
    rates = _squared_rates(W_v, W_1, W_2)
    smaller = jnp.minimum(jnp.sum(W_v * W_v), jnp.sum(W_2 * W_2))
    return rates[0] - rates[1] + norm_gap(W_v, W_2) * smaller


def commuting_integrals(
    position: Float[Array, " h"],
    velocity: Float[Array, " h"],
    eigenvalues: Float[Array, " h"],
    shift: Float[Array, ""],
    tie: float = 1e-10,
) -> Float[Array, " h"]:
    """The integrals F_i of the Garnier system in the eigenbasis of A; Σ F_i = 2H.

    F_i = p_i² + a_i q_i² − q_i²‖q‖² + Σ_{j≠i} (q_i p_j − q_j p_i)²/(a_i − a_j), a_i = α_i + D.
    Where eigenvalues tie only the sum of F_i over the tied ones is conserved (and the angular
    momenta inside the eigenspace); terms between tied ones cancel in it and are left out.

    Args:
        position: q = Uᵀw.
        velocity: p = Uᵀ W_1 W_2.
        eigenvalues: α of A = U diag(α) Uᵀ.
        shift: D.
        tie: eigenvalues closer than this share of the largest are one.
    """
    gaps = eigenvalues[:, None] - eigenvalues[None, :]
    tied = jnp.abs(gaps) <= tie * jnp.max(jnp.abs(eigenvalues))
    mixed = jnp.where(tied, 0.0, angular_momenta(position, velocity) ** 2)
    mixed = jnp.sum(mixed / jnp.where(tied, 1.0, gaps), axis=1)
    squares = position * position
    own = velocity * velocity + (eigenvalues + shift - jnp.sum(squares)) * squares
    return own + mixed


def angular_momenta(
    position: Float[Array, " h"], velocity: Float[Array, " h"]
) -> Float[Array, "h h"]:
    """q_i p_j − q_j p_i: conserved where α_i = α_j."""
    return jnp.outer(position, velocity) - jnp.outer(velocity, position)


def _squared_rates(W_v, W_1, W_2):
    """‖W_1 W_2‖² and ‖W_1ᵀ w‖²."""
    return jnp.sum((W_1 @ W_2) ** 2), jnp.sum((W_v @ W_1) ** 2)
