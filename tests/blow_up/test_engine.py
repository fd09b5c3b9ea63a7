"""The Taylor engine against slow oracles; the reduction against the full matrix flow."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blow_up_oracles import exact_blow_up_time, integrated_blow_up_time

from flowsim.blow_up import (
    blow_up_time,
    garnier,
    leading_order_state,
    partner_garnier,
    reduced_blow_up_time,
)
from flowsim.blow_up.leading_order import packed_blow_up


def start(seed, h, m, negative=False):
    """A Gaussian start, of negative energy if asked for."""
    rng = np.random.default_rng(seed)
    while True:
        weights = rng.normal(size=h), rng.normal(size=(h, m)), rng.normal(size=m)
        if not negative or weights[0] @ weights[1] @ weights[2] < 0:
            return weights


def check_against(truth, found):
    assert abs(Fraction(float(found.time)) / truth - 1) <= 5e-16
    assert Fraction(float(found.lower)) <= truth <= Fraction(float(found.upper))
    assert found.upper - found.lower <= 1e-13 * found.time
    assert found.verdict == "proved"


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize(("h", "m"), [(2, 2), (3, 6), (5, 3), (1, 3)])
def test_many_digit_oracle(h, m, negative):
    for seed in range(2):
        weights = start(seed, h, m, negative)
        check_against(exact_blow_up_time(*weights), blow_up_time(*weights))


@pytest.mark.parametrize("sizes", [(1e3, 1e-3, 1e-3), (1e-3, 1e-3, 1e3), (1e-3, 1, 1e-3)])
def test_unequal_sizes(sizes):
    """Where the w-system cancels the partner is integrated."""
    weights = tuple(size * part for size, part in zip(sizes, start(5, 3, 6), strict=True))
    check_against(exact_blow_up_time(*weights), blow_up_time(*weights))


def special_starts():
    """Where something is tied, dependent, opposed or far from unit size."""
    w, first, second = start(7, 3, 6)
    n, m = w / np.linalg.norm(w), second / np.linalg.norm(second)
    rows = np.linalg.qr(first.T)[0].T
    return {
        "W_1 of rank one": (w, np.outer(n, first[0]), second),
        "aligned": (0.7 * n, 1.3 * np.outer(n, m), -0.3 * m),
        "all of A's eigenvalues but one tied": (w, rows, second),
        "energy as negative as it can be": (w, first, -(first.T @ w)),
        "balanced to 1e-12": (n * (1 + 1e-12), np.outer(n, m), m),
        "‖W_v‖ = ‖W_2‖": (n, first, m),
        "integers": tuple(np.round(2 * part) for part in (w, first, second)),
        "hardly any motion at first": (1e-8 * w, first, 1e-8 * second),
    }


@pytest.mark.parametrize("name", special_starts())
def test_special_starts(name):
    weights = special_starts()[name]
    check_against(exact_blow_up_time(*weights), blow_up_time(*weights))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_sizes_near_the_ends_of_the_range(scale):
    weights = tuple(scale * part for part in start(8, 3, 6))
    power = int(np.log2(scale))
    exact = exact_blow_up_time(*(np.ldexp(part, -power) for part in weights))
    check_against(exact / Fraction(2) ** power, blow_up_time(*weights))


@pytest.mark.parametrize("transposed", [False, True])
def test_long_thin_weights_in_any_basis(transposed):
    """W_1 Qᵀ and Q W_2 have the blow-up of W_1 and W_2, and the direction Q m."""
    w, first, second = start(9, 3, 6)
    basis = np.linalg.qr(np.random.default_rng(9).normal(size=(65, 6)))[0]
    long = w, first @ basis.T, basis @ second
    short = blow_up_time(w, first, second)
    if transposed:
        found = blow_up_time(long[2], long[1].T, long[0])
        value, hidden = found.hidden_direction, found.value_direction
    else:
        found = blow_up_time(*long)
        value, hidden = found.value_direction, found.hidden_direction
    assert found.time == pytest.approx(short.time, rel=3e-15)
    assert found.lower <= found.time <= found.upper
    np.testing.assert_allclose(value, short.value_direction, atol=1e-14)
    np.testing.assert_allclose(hidden, basis @ short.hidden_direction, atol=1e-14)


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_one_block_zero(empty):
    weights = list(start(3, 5, 3))
    weights[empty] = np.zeros_like(weights[empty])
    found = blow_up_time(*weights)
    check_against(exact_blow_up_time(*weights), found)
    assert found.energy == 0


@pytest.mark.parametrize(("h", "m"), [(3, 6), (8, 8)])
def test_runge_kutta_on_the_full_matrices(h, m):
    weights = start(1, h, m, negative=True)
    assert blow_up_time(*weights).time == pytest.approx(
        integrated_blow_up_time(*weights), rel=1e-10
    )


def test_the_engines_agree():
    weights = start(1, 3, 6, negative=True)
    taylor, other = blow_up_time(*weights), blow_up_time(*weights, engine="runge_kutta")
    assert other.time == pytest.approx(taylor.time, rel=1e-12)
    assert other.lower <= taylor.time <= other.upper
    assert other.upper - other.lower <= 1e-10 * taylor.time
    assert other.verdict == "proved"
    assert other.energy == taylor.energy
    np.testing.assert_allclose(other.value_direction, taylor.value_direction, atol=1e-7)
    np.testing.assert_allclose(other.hidden_direction, taylor.hidden_direction, atol=1e-7)
    still = blow_up_time(weights[0], 0 * weights[1], 0 * weights[2], engine="runge_kutta")
    assert still.verdict == "never"
    assert still.time == still.lower == np.inf


@pytest.mark.parametrize(("h", "m"), [(3, 6), (5, 3)])
def test_full_state_is_recovered(h, m):
    from scipy.integrate import solve_ivp

    weights = start(2, h, m)
    time = 0.8 * blow_up_time(*weights).time

    def rate(_, y):
        w, first, second = y[:h], y[h:-m].reshape(h, m), y[-m:]
        return np.concatenate([first @ second, np.outer(w, second).ravel(), first.T @ w])

    y0 = np.concatenate([part.ravel() for part in weights])
    end = solve_ivp(rate, (0, time), y0, method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
    state = leading_order_state(*map(jnp.asarray, weights), jnp.asarray(time))
    flat = np.concatenate([np.ravel(part) for part in state])
    np.testing.assert_allclose(flat, end, rtol=0, atol=1e-12 * np.abs(end).max())


def test_directions_are_those_of_the_end():
    weights = start(4, 3, 6)
    found = blow_up_time(*weights)
    late = jnp.asarray(found.time * (1 - 1e-6))
    w, first, second = leading_order_state(*map(jnp.asarray, weights), late)
    n, m = found.value_direction, found.hidden_direction
    np.testing.assert_allclose(w / jnp.linalg.norm(w), n, atol=1e-9)
    np.testing.assert_allclose(second / jnp.linalg.norm(second), m, atol=1e-9)
    np.testing.assert_allclose(first / jnp.linalg.norm(first), np.outer(n, m), atol=1e-5)
    assert np.linalg.norm(n) == pytest.approx(1, rel=1e-15)


def test_state_after_blow_up_is_nan():
    weights = start(4, 3, 6)
    late = jnp.asarray(1.01 * blow_up_time(*weights).time)
    assert np.all(np.isnan(leading_order_state(*map(jnp.asarray, weights), late)[0]))


@pytest.mark.parametrize("system", [garnier, partner_garnier])
def test_reduced_data_dense_and_diagonal(system):
    """Both systems give one time, with A itself and in its eigenbasis."""
    w, first, second = start(6, 4, 4)
    truth = blow_up_time(w, first, second).time
    reduced = system(*map(jnp.asarray, (w, first, second)))
    q, p, A, D = reduced.position[0], reduced.velocity[0], reduced.curvature[0], reduced.shift
    alpha, basis = np.linalg.eigh(A)
    dense = reduced_blow_up_time(q, p, A, D)
    diagonal = reduced_blow_up_time(basis.T @ q, basis.T @ p, jnp.asarray(alpha), D)
    for found in (dense, diagonal):
        assert found.time == pytest.approx(truth, rel=1e-14)
        assert found.verdict == "proved"
    np.testing.assert_allclose(basis @ diagonal.direction, dense.direction, atol=1e-13)


def test_reduced_data_vectorise():
    rng = np.random.default_rng(0)
    q, p, alpha = (jnp.asarray(rng.normal(size=(5, 4))) for _ in range(3))
    D = -jnp.sum(q * q, axis=1)
    found = jax.vmap(reduced_blow_up_time)(q, p, alpha, D)
    for i in range(5):
        alone = reduced_blow_up_time(q[i], p[i], alpha[i], D[i])
        np.testing.assert_allclose(found.time[i], alone.time, rtol=1e-15)
        assert found.verdict.code[i] == alone.verdict.code


def test_one_compilation_a_shape():
    before = packed_blow_up._cache_size()
    for scale in (1.0, 1e-30, 1e30):
        for seed in range(3):
            blow_up_time(*(scale * part for part in start(seed, 7, 4)))
    assert packed_blow_up._cache_size() == before + 1
