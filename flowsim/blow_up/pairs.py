"""Arithmetic on unevaluated sums high + low: twice the digits of float64 (Dekker).

Products are split by masking bits, so that a compiler which fuses a product into the next addition
changes nothing.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.blow_up.two_part import two_sum

Pair = tuple[Float[Array, "..."], Float[Array, "..."]]
#: Sign, exponent and the 25 leading bits of the mantissa.
HALF_MASK = -1 << 27


def pair(value: Float[Array, "..."]) -> Pair:
    """A float64 number as a pair."""
    return value, jnp.zeros_like(value)


def add(x: Pair, y: Pair) -> Pair:
    """x + y."""
    high, low = two_sum(x[0], y[0])
    return two_sum(high, low + (x[1] + y[1]))


def multiply(x: Pair, y: Pair) -> Pair:
    """x · y."""
    high, low = _two_product(x[0], y[0])
    return two_sum(high, low + (x[0] * y[1] + x[1] * y[0]))


def divide(x: Pair, y: Pair) -> Pair:
    """x / y."""
    high = x[0] / y[0]
    product, error = _two_product(high, y[0])
    rest = (((x[0] - product) - error) + x[1]) - high * y[1]
    return two_sum(high, rest / y[0])


def square_root(x: Pair) -> Pair:
    """√x, x ≥ 0."""
    high = jnp.sqrt(x[0])
    product, error = _two_product(high, high)
    rest = ((x[0] - product) - error) + x[1]
    return two_sum(high, jnp.where(high > 0, rest / (2 * jnp.where(high > 0, high, 1.0)), 0.0))


def times(x: Pair, power: float) -> Pair:
    """x times a power of two."""
    return x[0] * power, x[1] * power


def chosen(condition: Array, x: Pair, y: Pair) -> Pair:
    """x where the condition holds, else y."""
    return jnp.where(condition, x[0], y[0]), jnp.where(condition, x[1], y[1])


def _two_product(a, b):
    """a·b rounded, and the rounding error."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(value):
    bits = jax.lax.bitcast_convert_type(value, jnp.int64) & HALF_MASK
    high = jax.lax.bitcast_convert_type(bits, jnp.float64)
    return high, value - high
