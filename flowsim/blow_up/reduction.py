"""Exact reduction of the leading-order flow to the Garnier system (theory.md, section 4)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from flowsim.blow_up.two_part import split, total_of


class Garnier(eqx.Module):
    """Start of q̈ = (2‖q‖² − D) q − A q, and of what moves along with it.

    Row 0 of `position` is q. A second row, if any, is y, which carries the partner vector: r = Yᵀ y
    with Y = [W_1; W_2ᵀ] at the start obeys r̈ = (2‖q‖² − D) r + (W_1ᵀW_1 − W_2 W_2ᵀ) r if
    ÿ = (2‖q‖² − D) y + diag(1, …, 1, −1) Y Yᵀ y, and that takes products with A alone, since
    W_1 W_1ᵀ = w wᵀ − A. Then A is bordered, C = [[A, −x], [−xᵀ, −‖W_2‖²]], and q has a zero behind
    it. A is dense and symmetric or, in its eigenbasis, a vector. What rounding took from a quantity
    is in its `_fine` part.
    """

    position: Float[Array, "rows h"]
    velocity: Float[Array, "rows h"]
    curvature: Float[Array, "1 h h"] | Float[Array, "1 h"]
    shift: Float[Array, ""]
    velocity_fine: Float[Array, "rows h"]
    curvature_fine: Float[Array, "1 h h"] | Float[Array, "1 h"]
    shift_fine: Float[Array, ""]

    @classmethod
    def of(cls, position, velocity, curvature, shift) -> "Garnier":
        """The system of one vector q, with the numbers taken as exact."""
        rows = (position[None], velocity[None], curvature[None], shift)
        return cls(*rows, *(jnp.zeros_like(part) for part in rows[1:]))

    def curved(self, vectors: Float[Array, "... rows h"]) -> Float[Array, "... rows h"]:
        """A q for row 0 and −diag(1, …, 1, −1) Y Yᵀ y for row 1 of each of a stack of states."""
        return self.completed(applied(self.curvature[0], vectors), vectors)

    def signed(self, products: Float[Array, "... rows h"]) -> Float[Array, "... rows h"]:
        """Products with C, whose last entry is dropped in row 0 and changes its sign in row 1."""
        if len(self.position) == 1:
            return products
        return products * jnp.ones_like(self.position).at[:, -1].set(jnp.asarray([0.0, -1.0]))

    def completed(
        self, products: Float[Array, "... rows h"], vectors: Float[Array, "... rows h"]
    ) -> Float[Array, "... rows h"]:
        """`signed`, and −w (w·y) in row 1: W_1 W_1ᵀ = w wᵀ − A."""
        if len(self.position) == 1:
            return products
        w = self.position[0]
        along = (vectors[..., 1, :] @ w)[..., None] * w
        return self.signed(products) - jnp.stack([jnp.zeros_like(along), along], axis=-2)


def applied(
    matrix: Float[Array, "h h"] | Float[Array, " h"], vectors: Float[Array, "... rows h"]
) -> Float[Array, "... rows h"]:
    """A symmetric matrix, or a diagonal one given as a vector, applied to every row."""
    return matrix * vectors if matrix.ndim == 1 else vectors @ matrix


def garnier(W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]) -> Garnier:
    """The w-system: q = w, q̇ = W_1 W_2, A = w wᵀ − W_1 W_1ᵀ, D = ‖w‖² − ‖W_2‖²."""
    return _garnier(bordered(W_v, W_1, W_2), alone=True)


def partner_garnier(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Garnier:
    """The W_2-system: the same equation with (D, A) → (−D, −B), B = W_1ᵀW_1 − W_2 W_2ᵀ."""
    return garnier(W_2, W_1.T, W_v)


def smaller_garnier(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> tuple[Garnier, Float[Array, "bordered size"], Bool[Array, ""]]:
    """The system with D ≤ 0 and what its partner takes along, Y, and whether they were exchanged.

    For D > 0 the w-system cancels badly (‖w‖ = 1e3 against 1e-3 for the rest: T* wrong by 6e-6),
    the W_2-system does not. Both are padded with zeros to max(h, m), which changes nothing.
    """
    size = max(W_1.shape)
    w, second = (jnp.pad(v, (0, size - v.size)) for v in (W_v, W_2))
    weights = bordered(w, jnp.pad(W_1, [(0, size - n) for n in W_1.shape]), second)
    exchange = jnp.sum(w * w) > jnp.sum(second * second)
    weights = jnp.where(exchange, weights.T, weights)
    return _garnier(weights, alone=False), weights[:, :-1], exchange


def bordered(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Float[Array, "h+1 m+1"]:
    """Z = [[W_1, w], [W_2ᵀ, 0]]; the partner system is that of Zᵀ."""
    return jnp.block([[W_1, W_v[:, None]], [W_2[None], jnp.zeros((1, 1))]])


def theta_offset(system: Garnier) -> Float[Array, ""]:
    """‖θ‖² − 3‖q‖² = −D − tr A, which stays constant (theory.md, section 3)."""
    curvature = system.curvature[0]
    diagonal = jnp.diagonal(curvature) if curvature.ndim == 2 else curvature
    alone = len(system.position) == 1
    return -system.shift - jnp.sum(diagonal if alone else diagonal[:-1])


def _garnier(weights, alone):
    """The system of Z = [[W_1, w], [W_2ᵀ, 0]], with its partner or alone.

    Z diag(1, …, 1, −1) Zᵀ = [[W_1W_1ᵀ − w wᵀ, W_1W_2], [·, ‖W_2‖²]], whose coarse part is exact.
    """
    coarse, fine = split(weights)
    gram, gram_fine = _gram(coarse, fine)
    w = weights[:, -1]
    squares = jnp.sum(coarse[:, -1] ** 2), jnp.sum((coarse + weights)[:, -1] * fine[:, -1])
    shift, shift_fine = total_of([squares[0], -gram[-1, -1]], squares[1] - gram_fine[-1, -1])
    x, x_fine = (part[:, -1].at[-1].set(0.0) for part in (gram, gram_fine))
    border = jnp.zeros_like(w).at[-1].set(1.0)
    rows = Garnier(
        position=jnp.stack([w, border]),
        velocity=jnp.stack([x, w]),
        curvature=-gram[None],
        shift=shift,
        velocity_fine=jnp.stack([x_fine, jnp.zeros_like(w)]),
        curvature_fine=-gram_fine[None],
        shift_fine=shift_fine,
    )
    return _alone(rows) if alone else rows


def _alone(system):
    """Row 0, without the border."""
    return Garnier(
        position=system.position[:1, :-1],
        velocity=system.velocity[:1, :-1],
        curvature=system.curvature[:, :-1, :-1],
        shift=system.shift,
        velocity_fine=system.velocity_fine[:1, :-1],
        curvature_fine=system.curvature_fine[:, :-1, :-1],
        shift_fine=system.shift_fine,
    )


def _gram(coarse, fine):
    """Z diag(1, …, 1, −1) Zᵀ of Z = coarse + fine, in two parts."""
    sign = jnp.ones(coarse.shape[1]).at[-1].set(-1.0)
    exact, mixed = (coarse * sign) @ coarse.T, (coarse * sign) @ fine.T
    return total_of([exact], (mixed + mixed.T) + (fine * sign) @ fine.T)
