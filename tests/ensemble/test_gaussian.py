"""The matrix-free sampler: equal in law to full matrices, bit-identical however it is split."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from flowsim.ensemble.chi import chi
from flowsim.ensemble.gaussian import (
    bidiagonal_weights,
    block_size,
    degrees_of_freedom,
    gaussian_block,
    gaussian_chains,
)

MEMBERS = 1500


def invariants(position, velocity, A, shift):
    """Numbers that rotations leave alone, one row a quantity (systems stacked on axis 0)."""
    bent = np.einsum("ni,nij,nj->n", position, A, position)
    fast = np.einsum("ni,nij,nj->n", velocity, A, velocity)
    return {
        "D": shift,
        "E": np.sum(position * velocity, axis=1),
        "speed": np.sum(velocity**2, axis=1),
        "bent": bent,
        "fast": fast,
        "trace of A³": np.einsum("nij,njk,nki->n", A, A, A),
    }


def smaller(w, W_1, second):
    """The smaller system of weights, in plain NumPy."""
    D = np.sum(w * w) - np.sum(second * second)
    if D > 0:
        w, W_1, second = second, W_1.T, w
    return w, W_1 @ second, np.outer(w, w) - W_1 @ W_1.T, -abs(D)


def from_matrices(h, m, count, seed):
    rng = np.random.default_rng(seed)
    size = max(h, m)
    found = []
    for _ in range(count):
        q, p, A, D = smaller(rng.normal(size=h), rng.normal(size=(h, m)), rng.normal(size=m))
        pad = size - q.size
        found.append((np.pad(q, (0, pad)), np.pad(p, (0, pad)), np.pad(A, (0, pad)), D))
    return invariants(*(np.array(x) for x in zip(*found, strict=True)))


def matrices(chain):
    n = chain.position.shape[-1]
    tridiagonal = chain.diagonal[:, :, None] * np.eye(n)
    side = chain.coupling[:, :, None] * np.eye(n, k=1)
    A = chain.border[:, :, None] * chain.border[:, None] - tridiagonal - side - side.mT
    return chain.position, chain.velocity, A, chain.shift


@pytest.mark.parametrize(("h", "m"), [(2, 2), (8, 8), (64, 64), (5, 2), (2, 5)])
def test_equal_in_law_to_full_matrices(h, m):
    count = block_size(h, m) * -(-MEMBERS // block_size(h, m))
    chain = gaussian_chains(jax.random.key(1), jnp.asarray(0), count, h, m)
    chain = jax.tree.map(lambda x: np.asarray(x)[:MEMBERS], chain)
    ours, theirs = invariants(*matrices(chain)), from_matrices(h, m, MEMBERS, seed=2)
    for name in ours:
        assert stats.ks_2samp(ours[name], theirs[name]).pvalue > 0.01, name


def test_the_chain_is_that_of_its_weights():
    key = jax.random.key(4)
    i = 7
    w, d, e, size = (np.asarray(x) for x in bidiagonal_weights(jax.random.fold_in(key, i), 5, 3))
    W_1 = (np.diag(d) + np.diag(e[:-1], 1))[:, :3]
    q, p, A, D = smaller(w, W_1, size * np.eye(3)[0])
    chain = jax.tree.map(
        lambda x: np.asarray(x)[i : i + 1], gaussian_block(key, jnp.asarray(0), 5, 3)
    )
    ours = matrices(chain)
    n = q.size
    np.testing.assert_allclose(ours[0][0, :n], q, rtol=1e-14)
    np.testing.assert_allclose(ours[1][0, :n], p, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(ours[2][0, :n, :n], A, rtol=1e-13, atol=1e-13)
    assert ours[3][0] == pytest.approx(D, rel=1e-13)
    assert not np.any(ours[0][0, n:])
    assert not np.any(ours[2][0, n:])


def test_degrees_of_freedom_of_rectangular_shapes():
    assert degrees_of_freedom(3, 5).tolist() == [[3, 2, 1, 0, 0], [4, 3, 2, 0, 0]]
    assert degrees_of_freedom(5, 3).tolist() == [[5, 4, 3, 0, 0], [2, 1, 0, 0, 0]]


def test_member_i_has_the_same_bits_whatever_the_count_and_the_start():
    size, key = block_size(8, 8), jax.random.key(0)
    many = gaussian_chains(key, jnp.asarray(0), 3 * size, 8, 8)
    some = gaussian_chains(key, jnp.asarray(2 * size), size, 8, 8)
    one = jax.jit(gaussian_block, static_argnums=(2, 3))(key, jnp.asarray(2), 8, 8)
    for a, b, c in zip(*map(jax.tree.leaves, (many, some, one)), strict=True):
        np.testing.assert_array_equal(a[2 * size :], b)
        np.testing.assert_allclose(b, c, rtol=1e-13, atol=1e-13)  # another program: own fusions


def test_chi_variates_follow_the_chi_law():
    degrees = np.repeat(np.array([0, 1, 2, 3, 7, 100], np.int32), 2000)
    drawn = np.asarray(chi(jax.random.key(5), jnp.asarray(degrees)))
    assert not np.any(drawn[degrees == 0])
    for k in (1, 2, 3, 7, 100):
        assert stats.kstest(drawn[degrees == k], stats.chi(k).cdf).pvalue > 0.01
