"""Numbers in two parts, coarse + fine, whose coarse products and sums are exact in float64.

A coarse part has 19 bits on one grid for the whole array, so that sums of products of two of them
have no rounding error up to 2¹⁵ terms, whatever the order of summation. The fine part is an
ordinary float64 remainder, 2⁻¹⁹ of the size: its rounding is 2⁻¹⁹ of the usual one.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

BITS = 19
EXPONENT_MASK = 0x7FF0_0000_0000_0000
#: Sign, exponent and the three leading bits of the mantissa.
SHORT_MASK = -1 << 49


def split(
    value: Float[Array, "*shape"], fine: Float[Array, "*shape"] | float = 0.0
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """value + fine as coarse + fine, the coarse part on the grid of the largest entry."""
    grid = _masked(jnp.max(jnp.abs(value)), EXPONENT_MASK) * 2.0 ** (1 - BITS)
    grid = jnp.where(grid > 0, grid, 1.0)
    coarse = jnp.round(value / grid) * grid
    return coarse, (value - coarse) + fine


def split_rows(
    value: Float[Array, "rows *shape"], fine: Float[Array, "rows *shape"]
) -> tuple[Float[Array, "rows *shape"], Float[Array, "rows *shape"]]:
    """`split` of each row on its own grid."""
    return jax.vmap(split)(value, fine)


def shortened(value: Float[Array, "..."]) -> Float[Array, "..."]:
    """The value cut to four significant bits: its square and cube are exact factors too."""
    return _masked(value, SHORT_MASK)


def two_sum(
    a: Float[Array, "..."], b: Float[Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """a + b rounded, and the rounding error (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def total_of(
    terms: list[Float[Array, "*shape"]], fine: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Σ terms + fine in two parts, the terms added without error, the largest first."""
    high = terms[0]
    for term in terms[1:]:
        high, error = two_sum(high, term)
        fine = fine + error
    return two_sum(high, fine)


def _masked(value, mask):
    bits = jax.lax.bitcast_convert_type(value, jnp.int64) & mask
    return jax.lax.bitcast_convert_type(bits, jnp.float64)
