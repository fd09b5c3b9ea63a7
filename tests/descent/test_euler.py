"""`descend` against closed forms and a plain loop."""

import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.descent import descend


def square(t, y, args):
    return y**2


@pytest.mark.parametrize(("eta", "expected"), [(0.1, 1.6), (0.01, 1.08), (0.001, 1.01)])
def test_descent_of_a_blow_up_lags(eta, expected):
    """y' = y², y₀ = 1 blows up at t = 1; the descent reaches 1e6 later (theory.md, section 9)."""
    run = descend(square, 1.0, learning_rate=eta, steps=round(2 / eta))
    first = np.argmax(np.asarray(run.states) >= 1e6)
    assert float(run.times[first]) == pytest.approx(expected, rel=1e-12)
    y, k = 1.0, 0
    while y < 1e6:
        y, k = y + eta * y * y, k + 1
    assert int(run.steps[first]) == k


@pytest.mark.parametrize(("eta", "expected"), [(0.1, 0.348678), (0.01, 0.366032)])
def test_descent_of_a_square(eta, expected):
    """½θ² from 1 to t = 1: (1 − η)^(1/η)."""
    run = descend(
        lambda t, y, args: -args * y, 1.0, learning_rate=eta, steps=round(1 / eta), args=1
    )
    assert float(run.final) == pytest.approx((1 - eta) ** (1 / eta), rel=1e-13)
    assert float(run.final) == pytest.approx(expected, abs=5e-7)


def test_divergence_names_the_step():
    run = descend(square, 1.0, learning_rate=0.1, steps=100)
    y, k = np.float64(1.0), 0
    with np.errstate(over="ignore"):
        while np.isfinite(y):
            y, k = y + 0.1 * y * y, k + 1
    assert run.outcome == "non_finite"
    assert run.stats["diverged_at_step"] == k
    assert np.all(np.isfinite(run.states))
    assert len(run) == k


def test_time_and_args_reach_the_field():
    """y' = a t by Euler: a η² k(k−1)/2."""
    run = descend(lambda t, y, args: {"x": args * t * jnp.ones(2)}, {"x": np.zeros(2)},
                  learning_rate=0.25, steps=8, args=3.0)  # fmt: skip
    k = np.arange(9)
    expected = 3 * 0.25**2 * k * (k - 1) / 2
    np.testing.assert_allclose(run.states["x"], np.stack([expected] * 2, axis=1), rtol=1e-13)
    np.testing.assert_allclose(run.rates["x"][:, 0], 3 * 0.25 * k, rtol=1e-13)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"learning_rate": 0}, ValueError, "learning_rate must be positive"),
        ({"steps": 2.5}, TypeError, "steps must be an integer; got 2.5"),
        ({"rate": 3}, TypeError, "rate must be callable"),
        ({"y0": []}, ValueError, "y0 must not be empty"),
        ({"times": [5.0]}, ValueError, "times must lie within the steps 0 to 4"),
    ],
)
def test_bad_input_is_named(change, error, message):
    arguments = {"rate": square, "y0": 1.0, "learning_rate": 0.1, "steps": 4} | change
    rate, y0 = arguments.pop("rate"), arguments.pop("y0")
    with pytest.raises(error, match=message):
        descend(rate, y0, **arguments)
