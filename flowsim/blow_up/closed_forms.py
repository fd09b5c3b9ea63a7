"""Blow-up times in closed form: scalars, aligned rank-one starts, balanced ones (theory.md, 5)."""

import jax.numpy as jnp
from jaxtyping import Array, Float, ScalarLike

from flowsim.blow_up.carlson import elliptic_rf_of_pairs
from flowsim.blow_up.pairs import add, chosen, divide, multiply, pair, square_root
from flowsim.blow_up.scaling import binary_exponent, times_power_of_two
from flowsim.blow_up.two_part import two_sum


def rank_one_blow_up_time(
    value: ScalarLike, first: ScalarLike, second: ScalarLike
) -> Float[Array, ""]:
    """Blow-up time of an aligned rank-one start, W_v = value·n, W_1 = first·n mᵀ, W_2 = second·m.

    ẇ = W_1 W_2, Ẇ_1 = w W_2, Ẇ_2 = W_1 w for the three numbers, whatever the unit vectors n, m
    (h = m = 1 included). For a product that is not negative T* = R_F(w², W_1², W_2²), Carlson's
    integral; for a negative one the flow turns round where the smallest size is zero. Infinite if
    two numbers are zero, or if the product is negative and the two smallest sizes are equal.

    Returns:
        T* in the unit of rescaled time that belongs to the numbers as given: T*(cθ) = T*(θ)/c.
    """
    numbers = jnp.stack([jnp.asarray(n, jnp.float64) for n in (value, first, second)])
    sizes = jnp.sort(jnp.abs(numbers))
    exponent = binary_exponent(sizes[2])
    small, middle, large = times_power_of_two(sizes, -exponent)
    negative = jnp.prod(jnp.sign(numbers)) < 0
    time = jnp.where(
        negative, _after_turning(small, middle, large), _directly(small, middle, large)
    )
    return times_power_of_two(time, -exponent)


def balanced_blow_up_time(size: ScalarLike) -> Float[Array, ""]:
    """T* = 1/r of a balanced aligned start, ‖W_v‖ = ‖W_1‖ = ‖W_2‖ = r, product positive."""
    return 1 / jnp.asarray(size, jnp.float64)


def _directly(a, b, c):
    """R_F(a², b², c²), after one exact duplication: a² + ab + bc + ca = (a + b)(a + c)."""
    ab, bc, ca = two_sum(a, b), two_sum(b, c), two_sum(c, a)
    x = multiply(ab, ca)
    total = multiply(bc, add(ab, ca))
    return 2 * elliptic_rf_of_pairs(x, total, multiply(bc, square_root(x)))


def _after_turning(a, b, c):
    """R_F(x, y, 0) + R_F(x+λ, y+λ, λ), x = b² − a², y = c² − a², λ = xy/a², for a ≤ b ≤ c.

    The first after a duplication, the second with a² taken out of its arguments over xy.
    """
    x = multiply(square_root(two_sum(b, -a)), square_root(two_sum(b, a)))  # the root of x
    y = multiply(square_root(two_sum(c, -a)), square_root(two_sum(c, a)))
    root, total = multiply(x, y), add(x, y)
    there = elliptic_rf_of_pairs(root, multiply(total, total), multiply(total, square_root(root)))
    turns = x[0] > 0
    one = pair(jnp.ones_like(a))
    x, y, root = (chosen(turns, z, one) for z in (x, y, root))
    first, second = divide(pair(a), x), divide(pair(a), y)
    first, second = add(one, multiply(first, first)), add(one, multiply(second, second))
    geometric = square_root(multiply(first, second))
    back = elliptic_rf_of_pairs(one, add(first, second), geometric)
    ratio = divide(pair(a), root)
    return jnp.where(turns, 2 * there + (ratio[0] * back + ratio[1] * back), jnp.inf)
