"""Unit Gaussian starts without matrices (theory.md, section 4; Dumitriu and Edelman 2002)."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flowsim.ensemble.chain import Chain, bidiagonal_chain
from flowsim.ensemble.chi import chi

#: Numbers drawn by one program: members are drawn in aligned blocks of BLOCK // width. The program
#: has one shape whatever the count, the batch or the devices, hence member i the same bits.
BLOCK = 4096


def degrees_of_freedom(h: int, m: int) -> Int[np.ndarray, "rows n"]:
    """Of the diagonal and superdiagonal of the bidiagonal h×m factor; zero where it is zero."""
    n = np.arange(max(h, m))
    diagonal = np.where(n < min(h, m), h - n, 0)
    superdiagonal = np.where(n < min(h, m - 1), m - 1 - n, 0)
    return np.stack([diagonal, superdiagonal]).astype(np.int32)


def bidiagonal_weights(
    key: Array, h: int, m: int
) -> tuple[Float[Array, " n"], Float[Array, " n"], Float[Array, " n"], Float[Array, ""]]:
    """W_v, diagonal and superdiagonal of W_1, and ‖W_2‖, n = max(h, m).

    Rotating unit Gaussian weights of shapes (h,), (h, m), (m,) gives these in law: W_v ~ N(0, I_h),
    diagonal χ_h, χ_{h−1}, …, superdiagonal χ_{m−1}, χ_{m−2}, …, W_2 = χ_m e_1.
    """
    for_w, for_rest = jax.random.split(key)
    n = max(h, m)
    w = jax.random.normal(for_w, (h,))
    degrees = np.append(degrees_of_freedom(h, m), np.int32(m))
    rest = chi(for_rest, jnp.asarray(degrees))
    return jnp.pad(w, (0, n - h)), rest[:n], rest[n:-1], rest[-1]


def block_size(h: int, m: int) -> int:
    """Members in one block."""
    return max(1, BLOCK // max(h, m))


def gaussian_block(key: Array, block: Int[Array, ""], h: int, m: int) -> Chain:
    """The members block·size, …, (block + 1)·size − 1; member i draws from fold_in(key, i)."""
    size = block_size(h, m)

    def member(i):
        return bidiagonal_chain(*bidiagonal_weights(jax.random.fold_in(key, i), h, m))

    return jax.vmap(member)(block * size + jnp.arange(size, dtype=block.dtype))


def gaussian_chains(key: Array, first: Int[Array, ""], count: int, h: int, m: int) -> Chain:
    """The members first, …, first + count − 1; both are multiples of the block size."""
    size = block_size(h, m)
    blocks = first // size + jnp.arange(count // size, dtype=first.dtype)
    drawn = jax.lax.map(lambda block: gaussian_block(key, block, h, m), blocks)
    return jax.tree.map(lambda x: x.reshape(count, *x.shape[2:]), drawn)
