"""Norms, ranks and rates against NumPy, closed cases and float32 extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flowsim.observables as obs
from flowsim.network import gaussian_parameters
from flowsim.observables.norms import scaled

RANDOM = np.random.default_rng(0).standard_normal((5, 3))
SIZES = [1e-30, 1e-20, 1.0, 1e30]


@pytest.mark.parametrize("size", SIZES)
def test_norms_and_ranks_do_not_depend_on_scale_in_float32(size):
    W = jnp.asarray(RANDOM * size, jnp.float32)
    values = np.linalg.svd(np.float64(W) / size, compute_uv=False)
    for function, exact in [
        (obs.frobenius, size * np.sqrt(np.sum(values**2))),
        (obs.effective_rank, np.sum(values) / values[0]),
        (obs.stable_rank, np.sum(values**2) / values[0] ** 2),
    ]:
        assert function(W).dtype == jnp.float32
        # a few float32 roundings of 1.2e-7
        np.testing.assert_allclose(function(W), exact, rtol=2e-6)


def test_closed_cases_of_ranks():
    assert obs.effective_rank(jnp.eye(4)) == pytest.approx(4, abs=1e-14)
    assert obs.stable_rank(jnp.eye(4)) == pytest.approx(4, abs=1e-14)
    rank_one = jnp.outer(jnp.arange(1.0, 5.0), jnp.arange(1.0, 4.0))
    assert obs.effective_rank(rank_one) == pytest.approx(1, abs=1e-14)
    two = jnp.diag(jnp.array([4.0, 2.0, 1.0]))
    assert obs.effective_rank(two) == pytest.approx(7 / 4, abs=1e-14)
    assert obs.stable_rank(two) == pytest.approx(21 / 16, abs=1e-14)


def test_a_square_gaussian_matrix_has_effective_rank_by_the_quarter_circle_law():
    d = 200
    W = jax.random.normal(jax.random.key(0), (d, d))
    # mean of the quarter circle law over its edge: 4/(3π); finite-size terms are O(d^(−2/3))
    assert obs.effective_rank(W) / d == pytest.approx(4 / (3 * np.pi), abs=0.01)


def test_zero_matrices_have_no_nan():
    zero = jnp.zeros((5, 3), jnp.float32)
    assert obs.frobenius(zero) == 0
    assert obs.effective_rank(zero) == 0
    assert obs.stable_rank(zero) == 0
    assert obs.relative_rate(zero, zero) == 0
    assert obs.relative_rate(zero, zero + 1) == jnp.inf
    assert not np.any(obs.unit_vectors(zero))
    assert not np.any(jax.jit(jax.grad(obs.frobenius))(zero))


def test_norm_of_what_is_not_finite_says_so():
    assert obs.frobenius(jnp.array([1.0, jnp.inf])) == jnp.inf
    assert jnp.isnan(obs.frobenius(jnp.array([1.0, jnp.nan])))


def test_gradient_of_the_norm_is_the_unit_matrix():
    W = jnp.asarray(1e-20 * RANDOM, jnp.float32)
    exact = RANDOM / np.linalg.norm(RANDOM)
    np.testing.assert_allclose(jax.jit(jax.grad(obs.frobenius))(W), exact, rtol=1e-5, atol=1e-7)


def test_scaled_returns_its_factor():
    unit, size = scaled(jnp.array([[1.0, -8.0], [0.0, 0.0]]), 1)
    np.testing.assert_array_equal(size, [[8.0], [0.0]])
    np.testing.assert_array_equal(unit, [[0.125, -1.0], [0.0, 0.0]])


def test_names_are_those_of_the_fields():
    theta = gaussian_parameters(jax.random.key(1), 3, scale=1e-3, hidden_width=4)
    assert list(obs.norms(theta)) == ["W_Q", "W_K", "W_V", "W_1", "W_2"]
    assert list(obs.effective_ranks(theta)) == ["W_Q", "W_K", "W_V", "W_1"]
    assert list(obs.norms(theta.W_1)) == ["y"]
    assert list(obs.norms({"a": {"b": theta.W_1}})) == ["a.b"]
    np.testing.assert_allclose(obs.norms(theta)["W_2"], np.linalg.norm(theta.W_2), rtol=1e-14)


def test_relative_rates_of_an_exponential_are_its_exponents():
    """W = e^{−λ t} W(0) has the rate λ, and the change e^{−λ Δt} − 1 a step."""
    theta = gaussian_parameters(jax.random.key(2), 3, scale=1e-20)
    exponents = {"W_Q": 0.5, "W_K": 1.0, "W_V": 2.0, "W_1": 3.0, "W_2": 0.25}
    rate = jax.tree.unflatten(
        jax.tree.structure(theta),
        [-a * W for a, W in zip(exponents.values(), jax.tree.leaves(theta), strict=True)],
    )
    rates = obs.relative_rates(theta, rate)
    for name, value in rates.items():
        assert value == pytest.approx(exponents[name], rel=1e-14)
    attention, outer = obs.group_rates(rates)
    assert (attention, outer) == (pytest.approx(1.0), pytest.approx(3.0))


def test_relative_changes_of_saved_states():
    times = jnp.array([0.0, 0.5, 2.0])
    states = {"W": jnp.exp(-times)[:, None, None] * jnp.asarray(RANDOM)[None]}
    exact = 1 - np.exp(-np.diff(times))
    np.testing.assert_allclose(obs.relative_changes(states)["W"], exact, rtol=1e-13)
