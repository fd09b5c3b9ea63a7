"""Taylor coefficients of many chains side by side, by batched matrix products.

The recursion is that of theory.md, section 5: s_k = Σ_j a_j·a_{k−j}, (k+1)(k+2) a_{k+2} =
2 Σ_j s_j a_{k−j} − (D + A) a_k. Two orders come from one pass (a_{k+2} and a_{k+3} both follow from
a_0 … a_{k+1}); products with the first HALF coefficients give every s_k, since s_k is symmetric.
On CPU a batched product is several times faster than the same sum as a fused loop.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.ensemble.chain import Chain

#: Order of the series, twice HALF plus one, HALF even. Long steps pay: of 17, 21, …, 41 this one is
#: the quickest at h = 8, 64 and 640, and members need three or four steps.
ORDER = 33
HALF = ORDER // 2
#: s_k stands at ORIGIN − k in its buffer: its windows run the same way as the coefficients.
ORIGIN = 3 * HALF - 2
#: Arrays of length h that a lane keeps busy: coefficients, halves and the chain itself.
ARRAYS_A_LANE = (ORDER + 1) + 2 * HALF + 12


class Operator(NamedTuple):
    """x → −(D + A) x, all but its rank-one part."""

    diagonal: Float[Array, "lanes 1 h"]
    right: Float[Array, "lanes 1 h"]
    left: Float[Array, "lanes 1 h"]

    def __call__(self, x: Float[Array, "lanes 2 h"]) -> Float[Array, "lanes 2 h"]:
        """(T − D) x."""
        rows = ((0, 0), (0, 0))
        after = jnp.pad(x[:, :, 1:], (*rows, (0, 1)))
        before = jnp.pad(x[:, :, :-1], (*rows, (1, 0)))
        return self.diagonal * x + self.right * after + self.left * before


def operator(chain: Chain) -> Operator:
    """The tridiagonal part of a chain's matrix, shifted."""
    left = jnp.pad(chain.coupling[:, :-1], ((0, 0), (1, 0)))
    shifted = chain.diagonal - chain.shift[:, None]
    return Operator(shifted[:, None], chain.coupling[:, None], left[:, None])


class Carry(NamedTuple):
    """s_0, s_1, … as far as known, the last two coefficients, and the first ones backwards."""

    squares: Float[Array, "lanes places"]
    pair: Float[Array, "lanes 2 h"]
    backwards: Float[Array, "lanes half1 h"]  # a_{HALF−1}, …, a_0, b


def taylor_coefficients(
    chain: Chain,
) -> tuple[Float[Array, "lanes orders h"], Float[Array, "lanes 2"]]:
    """a_0 … a_ORDER of every lane's solution, and s_0, s_1 (‖q‖² and 2 q·q̇)."""
    lanes, h = chain.position.shape
    apply = operator(chain)
    pair = jnp.stack([chain.position, chain.velocity], axis=1)
    first = jnp.zeros((lanes, HALF, h)).at[:, :2].set(pair)
    backwards = jnp.concatenate([first[:, ::-1], chain.border[:, None]], axis=1)
    carry = Carry(jnp.zeros((lanes, ORIGIN + ORDER + 1)), pair, backwards)

    def early(i, state):
        carry, first = state
        k = 2 * i
        carry = _two_more(carry, k, first, apply)
        zero = 0 * k
        first = jax.lax.dynamic_update_slice(first, carry.pair, (zero, k + 2, zero))
        place = (zero, HALF - 4 - k, zero)
        backwards = jax.lax.dynamic_update_slice(carry.backwards, carry.pair[:, ::-1], place)
        return carry._replace(backwards=backwards), first

    def late(i, state):
        carry, found = state
        carry = _two_more(carry, 2 * i, found, apply)
        place = (0 * i, 2 * i + 2, 0 * i)
        return carry, jax.lax.dynamic_update_slice(found, carry.pair, place)

    start, middle, end = (jnp.asarray(i, jnp.int32) for i in (0, HALF // 2 - 1, HALF))
    carry, first = jax.lax.fori_loop(start, middle, early, (carry, first))
    carry = _two_more(carry, 2 * middle, first, apply)
    rest = jnp.zeros((lanes, ORDER - 1 - HALF, h))
    found = jnp.concatenate([first, carry.pair, rest], axis=1)
    carry, found = jax.lax.fori_loop(middle + 1, end, late, (carry, found))
    return found, carry.squares[:, ORIGIN : ORIGIN - 2 : -1]


def _two_more(carry: Carry, k: Array, found: Array, apply: Operator) -> Carry:
    """a_{k+2} and a_{k+3} from the coefficients found so far."""
    products = jnp.stack([_dots(carry.pair[:, i], carry.backwards) for i in (0, 1)], axis=1)
    squares = _with_products(carry.squares, products[:, :, :HALF], k)
    rows, zero = found.shape[1], 0 * k
    windows = [
        jax.lax.dynamic_slice(squares, (zero, ORIGIN - k - i), (squares.shape[0], rows))
        for i in (0, 1)
    ]
    convolved = jnp.einsum("lpj,ljh->lph", jnp.stack(windows, axis=1), found)
    along = products[:, :, HALF:] * carry.backwards[:, None, HALF]
    order = k.astype(jnp.float64) + jnp.arange(2.0)
    factors = 1 / ((order + 1) * (order + 2))
    new = ((2 * convolved - along) + apply(carry.pair)) * factors[:, None]
    return Carry(squares, jax.lax.optimization_barrier(new), carry.backwards)


def _dots(vector: Float[Array, "lanes h"], rows: Float[Array, "lanes n h"]) -> Array:
    return jnp.einsum("lh,ljh->lj", vector, rows)


def _with_products(squares: Array, products: Array, k: Array) -> Array:
    """Adds a_j·a_k to s_{j+k} and a_j·a_{k+1} to s_{j+k+1}, twice for j below the other index."""
    order = jnp.asarray(np.arange(HALF)[::-1].copy(), k.dtype)
    index = k + jnp.arange(2, dtype=k.dtype)[:, None]
    weights = jnp.where(order < index, 2.0, jnp.where(order == index, 1.0, 0.0))
    weighted = weights * products
    shifted = [jnp.pad(weighted[:, i], ((0, 0), (1 - i, i))) for i in (0, 1)]
    place = (0 * k, ORIGIN - k - HALF)
    window = jax.lax.dynamic_slice(squares, place, (squares.shape[0], HALF + 1))
    return jax.lax.dynamic_update_slice(squares, window + (shifted[1] + shifted[0]), place)
