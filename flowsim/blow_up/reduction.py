"""Exact reduction of the leading-order flow to the Garnier system (theory.md, section 4)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Garnier(eqx.Module):
    """Start of q̈ = (2‖q‖² − D) q − A q, and of what moves along with it.

    Row 0 of `position` is q. A second row, if any, is the partner vector r, which obeys the linear
    equation r̈ = (2‖q‖² − D) r − A' r with its own matrix A'. Each matrix is dense, (h, h), or in
    its eigenbasis, (h,).
    """

    position: Float[Array, "rows h"]
    velocity: Float[Array, "rows h"]
    curvature: Float[Array, "rows h h"] | Float[Array, "rows h"]
    shift: Float[Array, ""]

    def curved(self, vectors: Float[Array, "... rows h"]) -> Float[Array, "... rows h"]:
        """A applied to row 0 and A' to row 1 of each of a stack of states."""
        if self.curvature.ndim == 2:
            return self.curvature * vectors
        return jnp.einsum("rij,...rj->...ri", self.curvature, vectors)


def garnier(W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]) -> Garnier:
    """The w-system: q = w, q̇ = W_1 W_2, A = w wᵀ − W_1 W_1ᵀ, D = ‖w‖² − ‖W_2‖²."""
    return Garnier(
        position=W_v[None],
        velocity=(W_1 @ W_2)[None],
        curvature=(jnp.outer(W_v, W_v) - W_1 @ W_1.T)[None],
        shift=norm_difference(W_v, W_2),
    )


def partner_garnier(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Garnier:
    """The W_2-system: the same equation with (D, A) → (−D, −B), B = W_1ᵀW_1 − W_2 W_2ᵀ."""
    return garnier(W_2, W_1.T, W_v)


def smaller_garnier(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> tuple[Garnier, Array]:
    """The system with D ≤ 0 as row 0 and its partner as row 1, and whether they were exchanged.

    For D > 0 the w-system cancels badly (‖w‖ = 1e3 against 1e-3 for the rest: T* wrong by 6e-6),
    the W_2-system does not. Both are padded with zeros to max(h, m), which changes nothing.
    """
    w, second = W_v, W_2
    size = max(W_1.shape)
    w = jnp.pad(w, (0, size - w.size))
    second = jnp.pad(second, (0, size - second.size))
    first = jnp.pad(W_1, [(0, size - n) for n in W_1.shape])
    system, partner = garnier(w, first, second), partner_garnier(w, first, second)
    exchange = system.shift > 0

    def rows(a, b):
        return jnp.where(exchange, jnp.concatenate([b, a]), jnp.concatenate([a, b]))

    both = Garnier(
        position=rows(system.position, partner.position),
        velocity=rows(system.velocity, partner.velocity),
        curvature=rows(system.curvature, partner.curvature),
        shift=-jnp.abs(system.shift),
    )
    return both, exchange


def norm_difference(first: Float[Array, " h"], second: Float[Array, " m"]) -> Float[Array, ""]:
    """‖first‖² − ‖second‖²."""
    return jnp.sum(first * first) - jnp.sum(second * second)
