"""Exact rescaling by powers of two: T*(2ᵏ θ) = 2⁻ᵏ T*(θ) bit for bit (theory.md, section 5)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

#: The largest exponent that one factor takes; a larger one is applied in two halves.
HALF_RANGE = 1000


def power_of_two(exponent: Int[Array, "..."]) -> Float[Array, "..."]:
    """2^exponent, exactly, for -1022 ≤ exponent ≤ 1023: the bits of the exponent alone."""
    bits = (exponent.astype(jnp.int64) + 1023) << 52
    return jax.lax.bitcast_convert_type(bits, jnp.float64)


def times_power_of_two(value: Float[Array, "..."], exponent: Int[Array, ""]) -> Float[Array, "..."]:
    """value · 2^exponent, exact unless it leaves the range of normal numbers."""
    first = jnp.clip(exponent, -HALF_RANGE, HALF_RANGE)
    second = jnp.clip(exponent - first, -HALF_RANGE, HALF_RANGE)
    return value * power_of_two(first) * power_of_two(second)


def binary_exponent(size: Float[Array, ""]) -> Int[Array, ""]:
    """e with 2^(e−1) ≤ size < 2^e; 0 for size = 0."""
    return jnp.frexp(size)[1]
