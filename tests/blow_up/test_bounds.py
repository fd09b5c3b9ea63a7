"""Bounds from the state alone: they hold along whole trajectories and across scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import elliprf

from flowsim.blow_up import blow_up_bounds, blow_up_time, leading_order_state

LOWER = ("lower", "norm_lower", "value_lower", "hidden_lower")
UPPER = ("upper", "energy_upper", "value_upper", "hidden_upper")
h, m = 3, 6
bounds_of, blow_up_times = jax.jit(jax.vmap(blow_up_bounds)), jax.jit(jax.vmap(blow_up_time))


def starts(spread, count=500):
    """Gaussian blocks of sizes 10^±spread."""
    rng = np.random.default_rng(h + 10 * m)

    def block(*shape):
        size = 10 ** rng.uniform(-spread, spread, (count, *(1 for _ in shape)))
        return rng.normal(size=(count, *shape)) * size

    return block(h), block(h, m), block(m)


@pytest.fixture(scope="module")
def of_unit_size():
    weights = starts(0)
    return weights, bounds_of(*weights), blow_up_times(*weights)


def check_all(bounds, found):
    assert np.all(found.verdict == "proved")
    for name in LOWER:
        assert np.all(getattr(bounds, name) <= found.upper)
    for name in UPPER:
        assert np.all(getattr(bounds, name) >= found.lower)
    positive = np.asarray(found.energy) > 1e-10 * np.asarray(found.time) ** -3.0
    assert np.all(np.isfinite(bounds.upper[positive]))
    assert np.all(np.isinf(bounds.upper[np.asarray(found.energy) <= 0]))


def test_every_bound_holds(of_unit_size):
    check_all(*of_unit_size[1:])


def test_every_bound_holds_across_scales():
    weights = starts(5)
    check_all(bounds_of(*weights), blow_up_times(*weights))


def test_elliptic_bounds_beat_the_papers(of_unit_size):
    _, bounds, found = of_unit_size
    positive = np.isfinite(bounds.upper)
    ratios = {
        name: np.median((getattr(bounds, name) / np.asarray(found.time))[positive])
        for name in UPPER
    }
    assert ratios["upper"] < 1.15 < 1.3 < ratios["energy_upper"]


def test_bounds_close_in_along_a_trajectory(of_unit_size):
    weights = tuple(jnp.asarray(a[0]) for a in of_unit_size[0])
    time = blow_up_time(*weights).time
    gaps = []
    for share in (0.0, 0.5, 0.9, 0.99):
        t = jnp.asarray(share * time)
        bounds = blow_up_bounds(*leading_order_state(*weights, t))
        assert t + bounds.lower <= time * (1 + 1e-12)
        assert t + bounds.upper >= time * (1 - 1e-12)
        gaps.append(float(bounds.upper - bounds.lower))
    assert gaps[1] > 50 * gaps[2] > 2500 * gaps[3] > 0


def test_lower_bound_is_the_elliptic_integral_of_the_theory(of_unit_size):
    weights, bounds, _ = of_unit_size
    w, first, second = (a[1] for a in weights)
    u, x = w @ w, first @ second
    alpha = np.linalg.eigvalsh(np.outer(w, w) - first @ first.T)[0]
    b = second @ second + u - alpha
    q = x @ x + u * u - np.sum((w @ first) ** 2) - alpha * u
    root = np.sqrt(complex(b * b - 4 * q))
    plus = (b + root) / 2
    expected = elliprf(complex(u), plus, complex(q) / plus).real
    assert bounds.value_lower[1] == pytest.approx(expected, rel=1e-13)
