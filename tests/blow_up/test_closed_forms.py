"""Closed forms against mpmath's R_F, and R_F against SciPy's."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.special import elliprf

from flowsim.blow_up import balanced_blow_up_time, blow_up_time, rank_one_blow_up_time
from flowsim.blow_up.carlson import elliptic_rf


def exact(numbers):
    """theory.md, section 5, in 40 digits."""
    with mpmath.workdps(40):
        a, b, c = sorted(abs(mpmath.mpf(float(n))) for n in numbers)
        if np.prod(np.sign(numbers)) >= 0:
            return mpmath.elliprf(a * a, b * b, c * c)
        x, y = (b - a) * (b + a), (c - a) * (c + a)
        shift = x * y / (a * a)
        return mpmath.elliprf(x, y, 0) + mpmath.elliprf(x + shift, y + shift, shift)


def random_triples(count):
    """Both signs; a third with two nearly equal squares, a sixth with three."""
    rng = np.random.default_rng(0)
    triples = rng.normal(size=(count, 3)) * 10 ** rng.uniform(-2, 2, (count, 3))
    near = 1 + rng.choice([-1, 1], (count, 2)) * 10 ** rng.uniform(-15.5, -1, (count, 2))
    signs = np.sign(triples)
    triples[: count // 3, 1] = signs[: count // 3, 1] * (triples[:, 0] * near[:, 0])[: count // 3]
    triples[: count // 6, 2] = signs[: count // 6, 2] * (triples[:, 0] * near[:, 1])[: count // 6]
    return triples


def test_within_four_units_in_the_last_place():
    triples = random_triples(10_000)
    times = np.asarray(jax.jit(jax.vmap(rank_one_blow_up_time))(*triples.T))
    assert np.all(np.isfinite(times))
    truth = [exact(triple) for triple in triples]
    errors = [
        abs(mpmath.mpf(time) - t) / mpmath.mpf(np.spacing(float(t)))
        for time, t in zip(times, truth, strict=True)
    ]
    assert max(errors) <= 4


@pytest.mark.parametrize("numbers", [(1, 2, 3), (1, 2, -3), (0, 2, 3), (2, -2.5, 7)])
def test_the_door_returns_the_closed_form(numbers):
    found = blow_up_time([numbers[0]], [[numbers[1]]], [numbers[2]])
    truth = exact(numbers)
    assert found.steps == 0
    assert found.verdict == "proved"
    assert abs(found.time / float(truth) - 1) < 1e-15
    assert found.lower <= truth <= found.upper


def test_published_values():
    assert float(rank_one_blow_up_time(1, 2, 3)) == pytest.approx(0.50864461857003023821, rel=4e-16)
    assert float(rank_one_blow_up_time(1, 2, -3)) == pytest.approx(0.88968396690700673, rel=4e-16)


@pytest.mark.parametrize("numbers", [(1, 1, -1), (1, 1, -2), (-2, 5, 2), (0, 0, 1), (0, 0, 0)])
def test_infinite_cases(numbers):
    assert rank_one_blow_up_time(*numbers) == np.inf


@pytest.mark.parametrize("size", [1e-200, 0.7, 1e200])
def test_balanced_starts(size):
    assert balanced_blow_up_time(size) == 1 / size
    assert float(rank_one_blow_up_time(size, -size, -size)) == pytest.approx(1 / size, rel=4e-16)


@pytest.mark.parametrize("numbers", [(1e-200, 1, 1e-200), (1e-200, 1, -2e-200), (1e250, 1, 1e-3)])
def test_far_apart_sizes(numbers):
    time = float(rank_one_blow_up_time(*numbers))
    assert abs(mpmath.mpf(time) / exact(numbers) - 1) < 1e-15


def test_aligned_matrices_agree_with_the_three_sizes():
    n, m = np.array([0.6, 0.0, 0.8]), np.array([0.28, -0.96])
    for numbers in ((1.0, 0.7, 1.9), (1.0, 0.7, -1.9)):
        value, first, second = numbers
        found = blow_up_time(value * n, first * np.outer(n, m), second * m)
        assert found.time == pytest.approx(float(rank_one_blow_up_time(*numbers)), rel=2e-14)


def test_elliptic_integral_of_real_and_complex_pairs():
    rng = np.random.default_rng(1)
    x = 10 ** rng.uniform(-3, 3, 300)
    y, z = 10 ** rng.uniform(-3, 3, (2, 300))
    pair = y + 1j * z
    real = elliptic_rf(jnp.asarray(x), jnp.asarray(y + z), jnp.asarray(y * z))
    np.testing.assert_allclose(real, elliprf(x, y, z), rtol=2e-15)
    total, product = 2 * pair.real, pair.real**2 + pair.imag**2
    complex_pair = elliptic_rf(jnp.asarray(x), jnp.asarray(total), jnp.asarray(product))
    np.testing.assert_allclose(complex_pair, elliprf(x, pair, pair.conj()).real, rtol=2e-15)
