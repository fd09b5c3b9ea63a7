"""The closed form of stage 2 against the integrated flow, its limits, and growth rates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.flows import KeyQuery
from flowsim.integrate import integrate
from flowsim.predict import KeyQuerySolution
from flowsim.predict.key_query import growth_of, onset_estimate

RNG = np.random.default_rng(4)
F = jnp.asarray(RNG.normal(size=(5, 5)))
W_Q, W_K = (jnp.asarray(1e-2 * RNG.normal(size=(5, 3))) for _ in range(2))


def test_the_numbers_of_the_theory():
    """theory.md, section 7: F = diag(2, 1), W_Q(0) = 1e-3 I, W_K(0) = 0, t = 3."""
    solution = KeyQuerySolution(np.diag([2, 1]), 1e-3 * np.eye(2), np.zeros((2, 2)))
    queries, keys = solution(3.0)
    np.testing.assert_allclose(queries, np.diag([0.20171564, 0.01006766]), atol=5e-9)
    np.testing.assert_allclose(keys, np.diag([0.20171316, 0.01001787]), atol=5e-9)


@pytest.mark.parametrize("rank", [5, 2])
def test_it_is_the_solution_of_the_flow(rank):
    left, values, right = jnp.linalg.svd(F)
    cut = (left[:, :rank] * values[:rank]) @ right[:rank]
    run = integrate(KeyQuery(cut), (W_Q, W_K), 2.0, rtol=1e-11)
    for got, expected in zip(KeyQuerySolution(cut, W_Q, W_K)(2.0), run.final, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


def test_nothing_overflows_and_the_limit_is_rank_one():
    solution = KeyQuerySolution(F, W_Q, W_K)
    queries, keys, exponent = solution.scaled(1e4)
    assert float(exponent) == pytest.approx(1e4 * np.linalg.norm(F, 2))
    for got, limit in zip((queries, keys), solution.limit(), strict=True):
        np.testing.assert_allclose(got / jnp.linalg.norm(got), limit, atol=1e-12)


def test_the_collapse_rate_is_the_gap():
    """The distance of W_Q/‖W_Q‖ from its limit falls like e^{−(σ₁ − σ₂)t}."""
    solution = KeyQuerySolution(F, W_Q, W_K)
    growth = growth_of(F, 1.0)
    distances = []
    for t in (6.0, 9.0):
        queries = solution.scaled(t)[0]
        distances.append(
            float(jnp.linalg.norm(queries / jnp.linalg.norm(queries) - solution.limit()[0]))
        )
    assert growth.collapse_rate < 2 * growth.rate
    measured = np.log(distances[0] / distances[1]) / 3
    assert measured == pytest.approx(growth.collapse_rate, rel=0.02)


def test_zero_start_stays_zero_and_small_times_keep_their_digits():
    zero = KeyQuerySolution(F, 0 * W_Q, 0 * W_K)(3.0)
    assert all(float(jnp.max(jnp.abs(W))) == 0 for W in zero)
    keys = KeyQuerySolution(F, W_Q, 0 * W_K)(1e-9)[1]
    np.testing.assert_allclose(keys, 1e-9 * F.T @ W_Q, rtol=1e-7)


def test_growth_of_tied_and_of_vanishing_matrices():
    tied = growth_of(jnp.diag(jnp.array([2.0, 1.95, 1.0])), 1.0)
    assert (tied.multiplicity, tied.tied) == (2, True)
    simple = growth_of(jnp.diag(jnp.array([2.0, 1.0])), 1.0)
    assert (simple.rate, simple.collapse_rate, simple.tied) == (2.0, 1.0, False)
    noise = growth_of(1e-17 * F, 1.0)
    assert (noise.rate, noise.collapse_rate) == (0.0, 0.0)
    assert onset_estimate(5.0, 1e-3, 1.0, noise) == float("inf")
    assert onset_estimate(5.0, 1e-3, 1.0, simple) == pytest.approx(5 + np.log(1e3) / 2)


def test_refusals_and_use_under_jit():
    solution = KeyQuerySolution(F, W_Q, W_K)
    with pytest.raises(ValueError, match=r"t must not be negative; got -1\.0"):
        solution(-1.0)
    with pytest.raises(ValueError, match="shapes must chain: axis 0 of W_Q has length 4"):
        KeyQuerySolution(F, np.ones((4, 2)), W_K)
    inside = jax.jit(lambda s, t: s(t))(solution, 1.0)
    np.testing.assert_allclose(inside[0], solution(1.0)[0], rtol=1e-13)
