"""Condensation, similarity and singular-vector stability against NumPy and closed cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flowsim.observables as obs
from flowsim.network import gaussian_parameters

ANGLES = np.deg2rad([0.0, 10.0, 18.0, 19.0, 90.0, 175.0])  # cos 18° = 0.951, cos 19° = 0.9455
FAN = np.stack([np.cos(ANGLES), np.sin(ANGLES)])  # columns at known angles to e_1
FIRST = jnp.array([2.0, 0.0])  # of any length


@pytest.mark.parametrize("size", [1e-20, 1.0])
def test_rate_counts_angles_below_the_threshold(size):
    W = jnp.asarray(size * FAN, jnp.float32)
    direction = FIRST.astype(jnp.float32)
    cosines = np.abs(np.cos(ANGLES))
    np.testing.assert_allclose(obs.abs_cosines(W, direction), cosines, atol=1e-6)
    assert obs.condensation_rate(W, direction) == pytest.approx(4 / 6, rel=1e-6)
    assert obs.condensation_rate(W.T, direction, "rows") == pytest.approx(4 / 6, rel=1e-6)
    assert obs.condensation_rate(W, direction, threshold=0.94) == pytest.approx(5 / 6, rel=1e-6)


def test_zero_vectors_are_not_counted():
    padded = jnp.asarray(np.hstack([FAN, np.zeros((2, 5))]))
    assert obs.condensation_rate(padded, FIRST) == pytest.approx(4 / 6)
    assert obs.condensation_rate(jnp.zeros((2, 3)), FIRST) == 0
    assert obs.condensation_rate(padded, jnp.zeros(2)) == 0
    assert obs.self_condensation(jnp.zeros((2, 3))) == 0


def test_self_condensation_finds_the_direction_alone():
    random = np.random.default_rng(0)
    W = jnp.asarray(np.outer(random.standard_normal(7), random.standard_normal(9)))
    assert obs.self_condensation(W) == 1
    assert obs.self_condensation(W, "rows") == 1
    noise = random.standard_normal((7, 9))
    own = np.linalg.svd(noise)
    for vectors, rows, top in [("columns", noise.T, own[0][:, 0]), ("rows", noise, own[2][0])]:
        cosines = np.abs(rows @ top) / np.linalg.norm(rows, axis=1)
        level = float(np.median(cosines)) + 1e-9
        exact = np.mean(cosines >= level)
        assert obs.self_condensation(jnp.asarray(noise), vectors, level) == pytest.approx(exact)


def test_table_of_condensed_weights():
    """W_V = p nᵀ, W_1 = n qᵀ with q along m, W_Q = u₁gᵀ, W_K = v₁gᵀ (theory.md, sections 6, 7)."""
    theta = gaussian_parameters(jax.random.key(1), 6, scale=1.0, value_width=5, hidden_width=4)
    random = np.random.default_rng(2)
    v, u1, v1, g = random.standard_normal((4, 6))
    n, m = random.standard_normal(5), random.standard_normal(4)
    leaves = [np.outer(u1, g), np.outer(v1, g), np.outer(v, n), np.outer(n, m), m]
    condensed = jax.tree.unflatten(jax.tree.structure(theta), [jnp.asarray(x) for x in leaves])
    v, n, m, u1, v1 = (jnp.asarray(x) for x in (v, n, m, u1, v1))
    table = obs.condensation_of(condensed, v, n, m, u1, v1)
    assert table.pop("W_Q columns to v") == 0
    assert table.pop("W_K columns to v") == 0
    assert len(table) == 6
    assert all(rate == 1 for rate in table.values())
    assert set(obs.condensation_of(condensed, v)) == {
        "W_V columns to v", "W_Q columns to v", "W_K columns to v",
    }  # fmt: skip


@pytest.mark.parametrize("size", [1e-20, 1.0])
def test_similarity_against_numpy(size):
    W = np.random.default_rng(3).standard_normal((6, 3))
    rows = W / np.linalg.norm(W, axis=1, keepdims=True)
    found = obs.cosine_similarity(jnp.asarray(size * W, jnp.float32))
    np.testing.assert_allclose(found, rows @ rows.T, atol=2e-6)


def test_reordering_gathers_two_opposite_groups():
    signs = np.array([1, -1, -1, 1, -1, 1, -1, -1])
    W = jnp.asarray(np.outer(signs * np.arange(1.0, 9.0), [0.6, 0.8]))
    block = np.sort(signs)
    np.testing.assert_allclose(obs.reordered_similarity(W), np.outer(block, block), atol=1e-14)


def test_reordering_is_a_permutation_sorted_by_the_top_eigenvector():
    W = jnp.asarray(np.random.default_rng(4).standard_normal((7, 3)))
    similarity = np.asarray(obs.cosine_similarity(W))
    order = np.asarray(obs.similarity_order(jnp.asarray(similarity)))
    assert sorted(order) == list(range(7))
    top = np.linalg.eigh(similarity)[1][:, -1]
    top = top * np.sign(np.sum(top))
    assert np.all(np.diff(top[order]) <= 0)
    found = obs.reordered_similarity(W)
    np.testing.assert_allclose(found, similarity[np.ix_(order, order)], atol=1e-14)
    # the order of the neurons says nothing: a permutation of the rows gives the same picture
    shuffled = obs.reordered_similarity(W[jnp.array([3, 0, 6, 1, 2, 5, 4])])
    np.testing.assert_allclose(found, shuffled, atol=1e-12)


def test_similarity_of_zero_rows_is_zero():
    assert not jnp.any(obs.reordered_similarity(jnp.zeros((3, 2), jnp.float32)))


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize("size", [1e-20, 1.0])
def test_stability_is_the_cosine_of_the_turn(size):
    values = np.diag([2.0, 1.0])
    before, after = (
        jnp.asarray(size * rotation(a) @ values @ rotation(b), jnp.float32)
        for a, b in [(0.1, 0.0), (0.5, -0.3)]
    )
    left, right = obs.singular_vector_stability(before, after)
    assert left == pytest.approx(np.cos(0.4), abs=1e-6)
    assert right == pytest.approx(np.cos(0.3), abs=1e-6)
    # vectors have no sign
    assert obs.singular_vector_stability(before, -before)[0] == pytest.approx(1, abs=1e-6)


def test_stability_along_equals_pairs():
    matrices = jnp.asarray(np.random.default_rng(5).standard_normal((4, 5, 3)))
    left, right = obs.stability_along(matrices)
    pairs = [obs.singular_vector_stability(matrices[i], matrices[i + 1]) for i in range(3)]
    np.testing.assert_allclose(left, [pair[0] for pair in pairs], atol=1e-12)
    np.testing.assert_allclose(right, [pair[1] for pair in pairs], atol=1e-12)
    u = [np.linalg.svd(matrices[i], full_matrices=False)[0] for i in range(2)]
    exact = np.mean(np.abs(np.sum(u[0] * u[1], axis=0)))
    assert left[0] == pytest.approx(exact, abs=1e-12)
    assert not np.any(np.isnan(obs.stability_along(jnp.zeros((3, 4, 2), jnp.float32))))
