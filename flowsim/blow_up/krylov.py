"""Large weights in the Krylov spaces of their start, where the solution lies to rounding (new).

Orthonormal U and V that begin with w and W_2 and are continued by W_1 and W_1ᵀ in turn make
UᵀW_1V tridiagonal (Saunders, Simon & Yip, SIAM J. Numer. Anal. 25 (1988) 927). The Taylor
coefficients of the flow up to an order k lie in the first k columns, so the small weights
(Uᵀw, UᵀW_1V, VᵀW_2) have the same flow up to (‖W_1‖ T*)^k/k!, for k products with W_1 and as many
with W_1ᵀ instead of the O(h²m) of W_1W_1ᵀ.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.blow_up.compression import Weights

#: Columns of U and V. Gaussian weights have ‖W_1‖ T* ≈ 2.34, for which 20 are enough.
COLUMNS = 28
#: Both sides of W_1 at least: below, products with W_1W_1ᵀ cost no more.
LARGE = 96
#: A remainder below so many units of rounding of the product it comes from is zero.
NOISE_ULPS = 16


def is_large(shape: tuple[int, ...]) -> bool:
    """Whether the spaces are so much smaller than the weights that they pay."""
    return min(shape) >= LARGE


def in_krylov_spaces(W_v: Array, W_1: Array, W_2: Array) -> tuple[Weights, Callable, Callable]:
    """Weights with COLUMNS rows and columns, and the maps that take their vectors back."""
    left, right, images = _bases(W_v, W_1, W_2)
    small = left @ W_v, left @ images.T, right @ W_2
    return small, lambda value: value @ left, lambda hidden: hidden @ right


def _bases(W_v, W_1, W_2) -> tuple[Array, Array, Array]:
    """Rows: u_j, v_j and W_1 v_j. Zero vectors where a space is exhausted or has not begun."""

    def extend(j, carry):
        left, right, images, u, v = carry
        ahead, back = W_1 @ v, u @ W_1
        new = zip((left, right, images), (u, v, ahead), strict=True)
        left, right, images = (jax.lax.dynamic_update_index_in_dim(a, row, j, 0) for a, row in new)
        return left, right, images, _next(left, ahead), _next(right, back)

    empty = [jnp.zeros((COLUMNS, size)) for size in (W_v.size, W_2.size, W_v.size)]
    start = (*empty, _unit(W_v, 0.0), _unit(W_2, 0.0))
    return jax.lax.fori_loop(0, COLUMNS, extend, start)[:3]


def _next(basis, vector):
    """The unit vector along what the basis, twice applied, leaves of a vector."""
    rest = vector
    for _ in range(2):
        rest = rest - (basis @ rest) @ basis
    noise = NOISE_ULPS * jnp.finfo(vector.dtype).eps * jnp.sqrt(jnp.sum(vector * vector))
    return _unit(rest, noise)


def _unit(vector, noise):
    size = jnp.sqrt(jnp.sum(vector * vector))
    return jnp.where(size > noise, vector / jnp.where(size > noise, size, 1.0), 0.0)


def unresolved(value: Float[Array, " k"], hidden: Float[Array, " k"]) -> Float[Array, ""]:
    """How much of the unit vectors n and m lies in the last two columns of either space.

    The two last, because one of them is zero at all times where w or W_2 starts from zero.
    """
    return jnp.max(jnp.abs(jnp.concatenate([value[-2:], hidden[-2:]])))
