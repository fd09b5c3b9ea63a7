"""Reduced starts whose matrix is tridiagonal plus rank one: O(h) memory, O(h) an evaluation."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.blow_up.reduction import Garnier


class Chain(eqx.Module):
    """Starts of q̈ = (2‖q‖² − D) q − A q with A = b bᵀ − T, T symmetric and tridiagonal.

    Every field may carry leading axes of members. Both systems of theory.md, section 4, have this
    form once W_1 is bidiagonal: A = w wᵀ − W_1W_1ᵀ, and −B = W_2 W_2ᵀ − W_1ᵀW_1 for the partner.
    """

    position: Float[Array, "*members h"]
    velocity: Float[Array, "*members h"]
    border: Float[Array, "*members h"]
    diagonal: Float[Array, "*members h"]  # T_ii
    coupling: Float[Array, "*members h"]  # T_{i,i+1}; the last is zero
    shift: Float[Array, "*members"]


def dense(chain: Chain) -> Garnier:
    """The same start with A as a matrix (one member)."""
    side = jnp.diag(chain.coupling[:-1], 1)
    tridiagonal = jnp.diag(chain.diagonal) + side + side.T
    A = jnp.outer(chain.border, chain.border) - tridiagonal
    return Garnier.of(chain.position, chain.velocity, A, chain.shift)


def bidiagonal_chain(
    W_v: Float[Array, " n"],
    diagonal: Float[Array, " n"],
    superdiagonal: Float[Array, " n"],
    W_2_size: Float[Array, ""],
) -> Chain:
    """The smaller system (D ≤ 0) of W_v, an upper bidiagonal W_1 and W_2 = ‖W_2‖ e_1.

    All are padded with zeros to n = max(h, m), which changes nothing.
    """
    w, d, e = W_v, diagonal, superdiagonal
    first = jnp.zeros_like(w).at[0].set(1.0)
    shift = pairwise_sum(w * w) - W_2_size * W_2_size
    exchange = shift > 0
    before = jnp.concatenate([jnp.zeros(1), e[:-1]])
    rows = (W_2_size * d[0] * first, d * d + e * e, e * jnp.append(d[1:], 0.0))
    columns = (d * w + before * jnp.append(0.0, w[:-1]), d * d + before * before, d * e)
    velocity, main, coupling = (
        jnp.where(exchange, c, r) for r, c in zip(rows, columns, strict=True)
    )
    position = jnp.where(exchange, W_2_size * first, w)
    return Chain(
        position=position,
        velocity=velocity,
        border=position,
        diagonal=main,
        coupling=coupling.at[-1].set(0.0),
        shift=-jnp.abs(shift),
    )


def pairwise_sum(terms: Float[Array, " n"]) -> Float[Array, ""]:
    """Σ terms by halves: additions whose order no compiler chooses, so the bits stay the same."""
    size = 1 << (terms.size - 1).bit_length()
    terms = jnp.pad(terms, (0, size - terms.size))
    while terms.size > 1:
        terms = terms[: terms.size // 2] + terms[terms.size // 2 :]
    return terms[0]
