"""Exact reduction of the leading-order flow to the Garnier system (theory.md, section 4)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from flowsim.blow_up.two_part import split, total_of


class Garnier(eqx.Module):
    """Start of q̈ = (2‖q‖² − D) q − A q, and of what moves along with it.

    Row 0 of `position` is q. A second row, if any, is the partner vector r, which obeys the linear
    equation r̈ = (2‖q‖² − D) r − A' r with its own matrix A'. Each matrix is dense, (h, h), or in
    its eigenbasis, (h,). What rounding took from a quantity is in its `_fine` part.
    """

    position: Float[Array, "rows h"]
    velocity: Float[Array, "rows h"]
    curvature: Float[Array, "rows h h"] | Float[Array, "rows h"]
    shift: Float[Array, ""]
    velocity_fine: Float[Array, "rows h"]
    curvature_fine: Float[Array, "rows h h"] | Float[Array, "rows h"]
    shift_fine: Float[Array, ""]

    @classmethod
    def of(cls, position, velocity, curvature, shift) -> "Garnier":
        """The system of one vector q, with the numbers taken as exact."""
        rows = (position[None], velocity[None], curvature[None], shift)
        return cls(*rows, *(jnp.zeros_like(part) for part in rows[1:]))

    def curved(self, vectors: Float[Array, "... rows h"]) -> Float[Array, "... rows h"]:
        """A applied to row 0 and A' to row 1 of each of a stack of states."""
        return applied(self.curvature, vectors)


def applied(
    matrices: Float[Array, "rows h h"] | Float[Array, "rows h"],
    vectors: Float[Array, "... rows h"],
) -> Float[Array, "... rows h"]:
    """Matrix i applied to row i of each of a stack of states; a diagonal one may be a vector.

    The matrices are symmetric. One product a row: XLA's batched product is several times slower.
    """
    if matrices.ndim == 2:
        return matrices * vectors
    rows = [vectors[..., i, :] @ matrix for i, matrix in enumerate(matrices)]
    return jnp.stack(rows, axis=-2)


def garnier(W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]) -> Garnier:
    """The w-system: q = w, q̇ = W_1 W_2, A = w wᵀ − W_1 W_1ᵀ, D = ‖w‖² − ‖W_2‖²."""
    return _garnier(bordered(W_v, W_1, W_2)[None])


def partner_garnier(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Garnier:
    """The W_2-system: the same equation with (D, A) → (−D, −B), B = W_1ᵀW_1 − W_2 W_2ᵀ."""
    return garnier(W_2, W_1.T, W_v)


def smaller_garnier(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> tuple[Garnier, Bool[Array, ""]]:
    """The system with D ≤ 0 as row 0 and its partner as row 1, and whether they were exchanged.

    For D > 0 the w-system cancels badly (‖w‖ = 1e3 against 1e-3 for the rest: T* wrong by 6e-6),
    the W_2-system does not. Both are padded with zeros to max(h, m), which changes nothing.
    """
    size = max(W_1.shape)
    w, second = (jnp.pad(v, (0, size - v.size)) for v in (W_v, W_2))
    weights = bordered(w, jnp.pad(W_1, [(0, size - n) for n in W_1.shape]), second)
    exchange = jnp.sum(w * w) > jnp.sum(second * second)
    weights = jnp.where(exchange, weights.T, weights)
    return _garnier(jnp.stack([weights, weights.T])), exchange


def bordered(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Float[Array, "h+1 m+1"]:
    """Z = [[W_1, w], [W_2ᵀ, 0]]; the partner system is that of Zᵀ."""
    return jnp.block([[W_1, W_v[:, None]], [W_2[None], jnp.zeros((1, 1))]])


def theta_offset(system: Garnier) -> Float[Array, ""]:
    """‖θ‖² − 3‖q‖² = −D − tr A, which stays constant (theory.md, section 3)."""
    curvature = system.curvature[0]
    trace = jnp.trace(curvature) if curvature.ndim == 2 else jnp.sum(curvature)
    return -system.shift - trace


def _garnier(weights):
    """Row i of the system from Z_i = [[W_1, w], [W_2ᵀ, 0]].

    Z diag(1, …, 1, −1) Zᵀ = [[W_1W_1ᵀ − w wᵀ, W_1W_2], [·, ‖W_2‖²]], whose coarse part is exact.
    """
    coarse, fine = jax.vmap(split)(weights)
    sign = jnp.ones(weights.shape[2]).at[-1].set(-1.0)
    grams = [_gram(first, second, sign) for first, second in zip(coarse, fine, strict=True)]
    gram, gram_fine = map(jnp.stack, zip(*grams, strict=True))
    w = weights[:, :-1, -1]
    squares = jnp.sum(coarse[0, :, -1] ** 2), jnp.sum((coarse + weights)[0, :, -1] * fine[0, :, -1])
    shift, shift_fine = total_of([squares[0], -gram[0, -1, -1]], squares[1] - gram_fine[0, -1, -1])
    return Garnier(
        position=w,
        velocity=gram[:, :-1, -1],
        curvature=-gram[:, :-1, :-1],
        shift=shift,
        velocity_fine=gram_fine[:, :-1, -1],
        curvature_fine=-gram_fine[:, :-1, :-1],
        shift_fine=shift_fine,
    )


def _gram(coarse, fine, sign):
    """Z diag(sign) Zᵀ of Z = coarse + fine, in two parts."""
    exact, mixed = (coarse * sign) @ coarse.T, (coarse * sign) @ fine.T
    return total_of([exact], (mixed + mixed.T) + (fine * sign) @ fine.T)
