"""Taylor series of the Garnier system: coefficients, and a step with its leading terms exact."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.blow_up.reduction import Garnier, applied
from flowsim.blow_up.two_part import split, split_rows, total_of

#: Order of the series.
ORDER = 27
#: s_k stands at ORIGIN − k in its buffer: its windows run the same way as the coefficients.
ORIGIN = 2 * ORDER
#: k and 1/((k+1)(k+2)) of the stages of the recursion, two coefficients each.
EVEN = np.arange(2, ORDER - 1, 2, dtype=np.int32)
FACTORS = np.stack([1 / ((EVEN + i + 1.0) * (EVEN + i + 2.0)) for i in (0, 1)], axis=1)


class State(eqx.Module):
    """q and q̇ (rows: those of `Garnier`), each in two parts."""

    position: Float[Array, "rows h"]
    velocity: Float[Array, "rows h"]
    position_fine: Float[Array, "rows h"]
    velocity_fine: Float[Array, "rows h"]


class Leading(NamedTuple):
    """q̈ and its derivative at a state: sums of exact terms, and what is left."""

    second: list[Float[Array, "rows h"]]
    second_fine: Float[Array, "rows h"]
    third: list[Float[Array, "rows h"]]
    third_fine: Float[Array, "rows h"]
    squares: Float[Array, "2"]  # the first two coefficients of ‖q‖²
    slope: Float[Array, "rows h"]  # the coarse part of q̇
    slope_fine: Float[Array, "rows h"]
    bent: Float[Array, " h"]  # A q


def leading_terms(
    system: Garnier, parts: Float[Array, "2 h h"] | Float[Array, "2 h"], state: State
) -> Leading:
    """q̈ = c q − A q and its derivative c q̇ + ċ q − A q̇, c = 2‖q‖² − D, ċ = 4 q·q̇.

    A Taylor step is a few tenths of the distance to the pole, so all its rounding sits in the
    first coefficients; with these two in 72 bits the error of a step is about 1e-19.

    Args:
        parts: A as coarse and fine.
    """
    q1, q2 = split_rows(state.position, state.position_fine)
    p1, p2 = split_rows(state.velocity, state.velocity_fine)
    vectors = jnp.stack([q1, p1, q2, p2])
    coarse, fine = (applied(part, vectors) for part in parts)
    bent = system.signed(coarse[:2])
    rest = coarse[2:] + (fine[:2] + fine[2:])
    bent_fine = system.completed(rest, vectors[:2] + vectors[2:])
    dots = jnp.sum(vectors[:, None, 0] * vectors[None, :, 0], axis=2)
    square, square_fine = dots[0, 0], 2 * dots[0, 2] + dots[2, 2]
    change, change_fine = 4 * dots[0, 1], 4 * ((dots[0, 3] + dots[1, 2]) + dots[2, 3])
    c1, c2 = split(*total_of([2 * square, -system.shift], 2 * square_fine - system.shift_fine))
    d1, d2 = split(change, change_fine)
    second_fine = (c1 * q2 + c2 * (q1 + q2)) - bent_fine[0]
    third_fine = (c1 * p2 + c2 * (p1 + p2)) + (d1 * q2 + d2 * (q1 + q2)) - bent_fine[1]
    return Leading(
        second=[c1 * q1, -bent[0]],
        second_fine=second_fine,
        third=[c1 * p1, d1 * q1, -bent[1]],
        third_fine=third_fine,
        squares=jnp.stack([square + square_fine, (change + change_fine) / 2]),
        slope=p1,
        slope_fine=p2,
        bent=(bent + bent_fine)[0, 0],
    )


def taylor_coefficients(
    system: Garnier, state: State, leading: Leading, unrolled: bool = False
) -> Float[Array, "orders rows h"]:
    """a_0 … a_ORDER of the solution through a state.

    s_k = Σ_j a_j·a_{k−j},  (k+1)(k+2) a_{k+2} = 2 Σ_j s_j a_{k−j} − (D + A) a_k.  The equation is
    of second order, so a_{k+2} and a_{k+3} both follow from a_0 … a_{k+1}: two at a time.

    Args:
        unrolled: written out coefficient by coefficient instead of as a loop: several times faster
            for h < 100, and slower to compile by about a second.
    """
    second = (sum(leading.second) + leading.second_fine) / 2
    third = (sum(leading.third) + leading.third_fine) / 6
    first = jnp.stack([state.position, state.velocity, second, third])
    return (_written_out if unrolled else _in_a_loop)(system, first, leading.squares)


def _in_a_loop(system, first, squares):
    """Every sum of a stage is a product of matrices: with all coefficients, the later ones zero."""
    found = jnp.concatenate([first, jnp.zeros((ORDER - 3, *first.shape[1:]))])
    known = jnp.stack([jnp.sum(first[1, 0] ** 2), squares[1], squares[0]])
    squares = jnp.pad(known, (ORIGIN - 2, ORDER))

    def two_more(carry, stage):
        found, squares = carry
        k, factors = stage
        pair = jax.lax.dynamic_slice_in_dim(found, k, 2)
        squares = _with_products(squares, pair[:, 0] @ found[:, 0].T, k)
        windows = [jax.lax.dynamic_slice_in_dim(squares, ORIGIN - k - i, ORDER + 1) for i in (0, 1)]
        convolved = jnp.stack(windows) @ found.reshape(ORDER + 1, -1)
        bent = system.shift * pair + system.curved(pair)
        new = (2 * convolved.reshape(pair.shape) - bent) * factors[:, None, None]
        found = jax.lax.dynamic_update_slice_in_dim(found, new, k + 2, 0)
        return (found, squares), None

    stages = (jnp.asarray(EVEN), jnp.asarray(FACTORS))
    return jax.lax.scan(two_more, (found, squares), stages)[0][0]


def _with_products(squares, products, k):
    """Adds a_{k+i}·a_j to s_{k+i+j}, twice for j < k + i."""
    order = jnp.arange(ORDER + 1, dtype=k.dtype)
    for i in (0, 1):
        times = jnp.where(order < k + i, 2.0, jnp.where(order == k + i, 1.0, 0.0))
        place = ORIGIN - ORDER - k - i
        old = jax.lax.dynamic_slice_in_dim(squares, place, ORDER + 1)
        new = old + (times * products[i])[::-1]
        squares = jax.lax.dynamic_update_slice_in_dim(squares, new, place, 0)
    return squares


def _written_out(system, first, squares):
    """Barriers keep the compiler from computing one stage inside the next."""
    a, s = list(first), list(squares)
    for k, factors in zip(EVEN.tolist(), FACTORS.tolist(), strict=True):
        pair = jnp.stack(a[k : k + 2])
        bent = system.shift * pair + system.curved(pair)
        products = jnp.stack([_self_product(a, k), _self_product(a, k + 1)])
        s += list(jax.lax.optimization_barrier(jnp.sum(products, axis=1)))
        convolved = [sum(s[j] * a[n - j] for j in range(n + 1)) for n in (k, k + 1)]
        new = [(2 * convolved[i] - bent[i]) * factors[i] for i in (0, 1)]
        a += list(jax.lax.optimization_barrier(jnp.stack(new)))
    return jnp.stack(a)


def _self_product(a, k):
    """Σ_j a_j a_{k−j} entry by entry, over row 0."""
    total = 2 * sum(a[j][0] * a[k - j][0] for j in range((k + 1) // 2))
    return total if k % 2 else total + a[k // 2][0] ** 2


def advance(
    state: State, leading: Leading, a: Float[Array, "orders rows h"], step: Float[Array, ""]
) -> State:
    """The state at t + step: Σ a_k step^k, the exact terms for a step of four bits."""
    orders = jnp.arange(ORDER + 1.0)
    powers = jnp.exp(orders * jnp.log(step))
    half = 0.5 * (step * step)
    fine = state.position_fine + leading.slope_fine * step + leading.second_fine * half
    fine += _sum_of(powers[3:], a[3:])
    terms = [state.position, leading.slope * step, *(term * half for term in leading.second)]
    position = total_of(terms, fine)
    fine = state.velocity_fine + leading.second_fine * step + leading.third_fine * half
    fine += _sum_of(powers[3:-1] * orders[4:], a[4:])
    terms = [term * step for term in leading.second] + [term * half for term in leading.third]
    velocity = total_of([state.velocity, *terms], fine)
    return State(position[0], velocity[0], position[1], velocity[1])


def _sum_of(factors, terms):
    return jnp.sum((factors[:, None, None] * terms)[::-1], axis=0)
