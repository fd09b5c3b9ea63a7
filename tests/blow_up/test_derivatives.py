"""Derivatives of T*: identities of the theory, finite differences, a scalar oracle, both modes."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from flowsim.blow_up import blow_up_time

SHAPES = [(1, 1), (2, 5), (6, 6)]


def weights_of(shape, seed=0, factor=1.0):
    h, m = shape
    generator = np.random.default_rng(seed)
    return factor * generator.normal(size=h), generator.normal(size=shape), generator.normal(size=m)


def time_of(W_v, W_1, W_2):
    return blow_up_time(W_v, W_1, W_2).time


gradient = jax.grad(time_of, (0, 1, 2))  # its parts are compiled once a shape


def inner(first, second):
    return sum(np.vdot(a, b) for a, b in zip(first, second, strict=True))


def flow(W_v, W_1, W_2):
    """∇E, the velocity of the leading-order flow [CL 7]."""
    return W_1 @ W_2, np.outer(W_v, W_2), W_1.T @ W_v


@pytest.mark.parametrize("factor", [0.2, 3.0], ids=["D < 0", "D > 0"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_identities(shape, factor):
    """∇E·∇T* = −1, θ·∇T* = −T* (theory.md, section 5); measured 1e-13."""
    for seed in range(4):
        weights = weights_of(shape, seed, factor)
        time, found = time_of(*weights), gradient(*weights)
        if shape == (1, 1) and not np.isfinite(time):
            continue
        assert inner(flow(*weights), found) == pytest.approx(-1, rel=2e-12)
        assert inner(weights, found) == pytest.approx(-time, rel=2e-12)


@pytest.mark.parametrize("factor", [0.2, 3.0], ids=["D < 0", "D > 0"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_finite_differences(shape, factor):
    """Fourth-order differences of T* along a direction that no identity covers, Richardson
    extrapolated from steps 4e-4 and 2e-4."""
    weights = weights_of(shape, 1, factor)
    direction = weights_of(shape, 100)

    def moved(step):
        return time_of(*(a + step * b for a, b in zip(weights, direction, strict=True)))

    def slope(step):
        near, far = moved(step) - moved(-step), moved(2 * step) - moved(-2 * step)
        return (8 * near - far) / (12 * step)

    expected = (16 * slope(2e-4) - slope(4e-4)) / 15
    assert inner(direction, gradient(*weights)) == pytest.approx(expected, rel=1e-8)


def test_a_scalar_start_against_the_derivative_of_the_integral():
    """T* = R_F(w², W_1², W_2²), so ∂T*/∂w = −w R_D(W_1², W_2², w²)/3 and so on (DLMF 19.20, 19.18).

    The oracle is mpmath's derivative of its own R_F.
    """
    numbers = [mpmath.mpf(x) for x in ("0.7", "1.3", "0.4")]

    def carlson(*sizes):
        return mpmath.elliprf(*(x**2 for x in sizes))

    expected = [
        float(mpmath.diff(carlson, numbers, tuple(int(i == j) for j in range(3)))) for i in range(3)
    ]
    w, first, second = gradient(np.array([0.7]), np.array([[1.3]]), np.array([0.4]))
    assert [w[0], first[0, 0], second[0]] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("exponent", [-300, 300])
def test_scaling(exponent):
    """T*(cθ) = T*(θ)/c makes ∇T*(cθ) = ∇T*(θ)/c², bit for bit for powers of two."""
    weights = weights_of((2, 5))
    scaled = gradient(*(np.ldexp(a, exponent) for a in weights))
    for a, b in zip(scaled, gradient(*weights), strict=True):
        assert np.array_equal(a, np.ldexp(b, -2 * exponent))


def test_tied_eigenvalues_and_rank_one():
    """Balanced aligned start: T* = 1/r, and by symmetry ∇T* is along θ: −T* θ/‖θ‖²."""
    n, m = np.array([0.6, 0.8]), np.array([0, 1.0, 0, 0, 0])
    weights = 2 * n, 2 * np.outer(n, m), 2 * m
    for found, theta in zip(gradient(*weights), weights, strict=True):
        assert np.asarray(found) == pytest.approx(-theta / 24, abs=1e-14)


def test_negative_energy_at_the_start():
    weights = next(
        w for w in (weights_of((2, 5), seed) for seed in range(50)) if w[0] @ w[1] @ w[2] < -1
    )
    found = gradient(*weights)
    assert inner(flow(*weights), found) == pytest.approx(-1, rel=1e-11)
    assert inner(weights, found) == pytest.approx(-time_of(*weights), rel=1e-11)


def test_both_modes_under_jit_and_vmap():
    weights, direction = weights_of((2, 5)), weights_of((2, 5), 7)
    time, forward = jax.jvp(time_of, weights, direction)
    assert time == time_of(*weights)
    found = gradient(*weights)
    assert forward == pytest.approx(inner(found, direction), rel=1e-12)
    jacobian = jax.jacobian(time_of, 1)(*weights)
    assert np.asarray(jacobian) == pytest.approx(np.asarray(found[1]), rel=1e-12)
    batch = [np.stack([a, 2 * a, 4 * a]) for a in weights]
    rows = jax.jit(jax.vmap(jax.grad(time_of, (0, 1, 2))))(*batch)
    for row, one in zip(rows, found, strict=True):
        for i in range(3):
            assert np.asarray(row[i]) == pytest.approx(np.asarray(one) / 4**i, rel=1e-12)


def test_no_blow_up_has_no_gradient():
    assert all(np.isnan(g).all() for g in gradient(np.ones(1), np.ones((1, 1)), -np.ones(1)))


def test_the_chain_rule_beyond_it():
    """The derivative of κ T* through a user's own function of ε: T*(εθ̄) = T*(θ̄)/ε."""
    weights = weights_of((2, 5))

    def scaled(scale):
        return jnp.log(time_of(*(scale * jnp.asarray(a) for a in weights)))

    assert jax.grad(scaled)(0.01) == pytest.approx(-100, rel=1e-11)
