"""The full state of the leading-order flow at a given time, recovered from the reduced one."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.blow_up.reduction import smaller_garnier
from flowsim.blow_up.scaling import binary_exponent, times_power_of_two
from flowsim.blow_up.series import ORDER, State, advance, leading_terms, taylor_coefficients
from flowsim.blow_up.taylor import MAX_STEPS, step_length
from flowsim.blow_up.two_part import split

#: i + j + 1 for the coefficients i and j of two series.
HANKEL = np.add.outer(np.arange(ORDER + 1.0), np.arange(ORDER + 1.0)) + 1


@jax.jit
def leading_order_state(
    W_v: Float[Array, " h"],
    W_1: Float[Array, "h m"],
    W_2: Float[Array, " m"],
    time: Float[Array, ""],
) -> tuple[Float[Array, " h"], Float[Array, "h m"], Float[Array, " m"]]:
    """(w, W_1, W_2) of the leading-order flow at `time` ≥ 0 below T*; NaN from T* on.

    The Garnier system and its partner are integrated by Taylor series; W_1 = W_1(0) + ∫ w ⊗ W_2
    is the integral of a product of two polynomials, so each step costs two thin products
    (theory.md, section 4). Pure and traceable.

    Args:
        time: in the unit-rate time of the weights as given.
    """
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in (W_v, W_1, W_2)]))
    exponent = binary_exponent(largest)
    scaled = tuple(times_power_of_two(a, -exponent) for a in (W_v, W_1, W_2))
    system, factor, exchanged = smaller_garnier(*scaled)
    end, product, left = _carried(system, times_power_of_two(time, exponent))
    rows = jnp.stack([end[0, :-1], end[1] @ factor])
    rows = jnp.where(exchanged, rows[::-1], rows)
    product = product[:-1] @ factor
    product = jnp.where(exchanged, product.T, product)
    h, m = W_1.shape
    found = rows[0, :h], scaled[1] + product[:h, :m], rows[1, :m]
    w, first, second = (jnp.where(left > 0, jnp.nan, a) for a in found)
    w, first, second = (times_power_of_two(a, exponent) for a in (w, first, second))
    return w, first, second


def _carried(system, time):
    """Position after `time`, ∫ (row 0) ⊗ (row 1), and the time that is left."""
    parts = jnp.stack(split(system.curvature[0], system.curvature_fine[0]))
    zeros = jnp.zeros_like(system.position)
    state = State(system.position, system.velocity, zeros, system.velocity_fine)
    product = jnp.zeros((zeros.shape[1],) * 2)

    def goes_on(carry):
        state, _, left, steps = carry
        return (left > 0) & (steps < MAX_STEPS) & jnp.all(jnp.isfinite(state.velocity))

    def step(carry):
        state, product, left, steps = carry
        leading = leading_terms(system, parts, state)
        a = taylor_coefficients(system, state, leading)
        length = step_length(a)
        length = jnp.where(length < left, length, left)
        weights = length**HANKEL / HANKEL
        product = product + jnp.einsum("ki,kl,lj->ij", a[:, 0], weights, a[:, 1])
        return advance(state, leading, a, length), product, left - length, steps + 1

    start = (state, product, time, jnp.zeros((), jnp.int32))
    state, product, left, _ = jax.lax.while_loop(goes_on, step, start)
    return state.position, product, left
