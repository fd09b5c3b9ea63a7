"""Invariants along the leading-order flow, integrated by an independent code."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from flowsim.observables import invariants

SHAPES = [(3, 3), (5, 2), (2, 5), (6, 2)]


def flowed(seed, h, m, time):
    """A Gaussian start and the same start carried along the full matrix flow by SciPy."""
    rng = np.random.default_rng(seed)
    start = rng.normal(size=h), rng.normal(size=(h, m)), rng.normal(size=m)

    def parts(y):
        return y[:h], y[h : h + h * m].reshape(h, m), y[h + h * m :]

    def rate(_, y):
        w, first, second = parts(y)
        return np.concatenate([first @ second, np.outer(w, second).ravel(), first.T @ w])

    y0 = np.concatenate([part.ravel() for part in start])
    end = solve_ivp(rate, (0, time), y0, method="DOP853", rtol=1e-13, atol=1e-15).y[:, -1]
    return tuple(map(jnp.asarray, start)), tuple(map(jnp.asarray, parts(end)))


def close(a, b, scale):
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-11 * scale)


@pytest.mark.parametrize(("h", "m"), SHAPES)
def test_matrices_gap_and_hamiltonian_stay(h, m):
    start, end = flowed(h + 10 * m, h, m, 0.2)
    size = float(sum(jnp.sum(part**2) for part in end))
    assert jnp.linalg.norm(end[0] - start[0]) > 0.1  # it did move
    close(invariants.value_invariant(*start[:2]), invariants.value_invariant(*end[:2]), size)
    close(invariants.hidden_invariant(*start[1:]), invariants.hidden_invariant(*end[1:]), size)
    close(invariants.norm_gap(*start[::2]), invariants.norm_gap(*end[::2]), size)
    close(invariants.hamiltonian(*start), invariants.hamiltonian(*end), size**2)
    close(invariants.nondegeneracy(*start), invariants.nondegeneracy(*end), size**2)


@pytest.mark.parametrize(("h", "m"), SHAPES)
def test_hamiltonian_of_the_reduced_system(h, m):
    (w, first, second), _ = flowed(h + 10 * m, h, m, 0.01)
    A, D = invariants.value_invariant(w, first), invariants.norm_gap(w, second)
    x, u = first @ second, jnp.sum(w * w)
    reduced = 0.5 * (jnp.sum(x * x) - u * u + D * u + w @ A @ w)
    assert invariants.hamiltonian(w, first, second) == pytest.approx(float(reduced), rel=1e-12)


@pytest.mark.parametrize(("h", "m"), SHAPES)
def test_nondegeneracy_is_a_statement_about_the_hamiltonian(h, m):
    (w, first, second), _ = flowed(h + 10 * m, h, m, 0.01)
    for weights in ((w, first, second), (second, first.T, w)):
        D = float(invariants.norm_gap(weights[0], weights[2]))
        twice = 2 * float(invariants.hamiltonian(*weights))
        expected = twice - D * D if D >= 0 else twice
        assert invariants.nondegeneracy(*weights) == pytest.approx(expected, rel=1e-12)


def test_degenerate_scalar_starts_have_none():
    for numbers in ((1.0, 1.0, -1.0), (1.0, 1.0, -2.0), (3.0, -1.0, 1.0)):
        value, first, second = numbers
        weights = jnp.array([value]), jnp.array([[first]]), jnp.array([second])
        assert invariants.nondegeneracy(*weights) == 0


@pytest.mark.parametrize(("h", "m"), SHAPES)
def test_commuting_integrals(h, m):
    start, end = flowed(h + 10 * m, h, m, 0.2)
    size = float(sum(jnp.sum(part**2) for part in end))
    eigenvalues, basis = jnp.linalg.eigh(invariants.value_invariant(*start[:2]))
    D = invariants.norm_gap(*start[::2])
    found = []
    for w, first, second in (start, end):
        q, p = basis.T @ w, basis.T @ (first @ second)
        integrals = invariants.commuting_integrals(q, p, eigenvalues, D)
        hamiltonian = invariants.hamiltonian(w, first, second)
        close(jnp.sum(integrals), 2 * hamiltonian, size**2)
        found.append((integrals, invariants.angular_momenta(q, p)))
    tied = np.abs(eigenvalues) < 1e-10  # A has a zero eigenvalue h − m − 1 times
    assert tied.sum() == max(h - m - 1, 0)
    close(found[0][0][~tied], found[1][0][~tied], 50 * size**2)
    close(jnp.sum(found[0][0][tied]), jnp.sum(found[1][0][tied]), 50 * size**2)
    close(found[0][1][tied][:, tied], found[1][1][tied][:, tied], size**2)


def test_energy_rises_at_the_rate_of_its_gradient():
    (w, first, second), _ = flowed(7, 3, 4, 0.01)
    rates = first @ second, jnp.outer(w, second), w @ first

    def moved(step):
        return invariants.energy(
            w + step * rates[0], first + step * rates[1], second + step * rates[2]
        )

    slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
    gradient = sum(jnp.sum(rate**2) for rate in rates)
    assert slope == pytest.approx(float(gradient), rel=1e-8)
