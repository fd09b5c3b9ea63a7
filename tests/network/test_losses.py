"""Losses: values, derivatives, large margins, and the refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.network.losses import loss

POINTS = np.linspace(-5, 5, 21)


def test_values_and_derivatives():
    q = jnp.asarray(POINTS)
    np.testing.assert_allclose(loss("exponential")(q), np.exp(-POINTS), rtol=1e-14)
    np.testing.assert_allclose(loss("logistic")(q), np.log1p(np.exp(-POINTS)), rtol=1e-14)
    np.testing.assert_allclose(loss("exponential").derivative(q), -np.exp(-POINTS), rtol=1e-14)
    expected = -1 / (1 + np.exp(POINTS))
    np.testing.assert_allclose(loss("logistic").derivative(q), expected, rtol=1e-14)


@pytest.mark.parametrize("name", ["exponential", "logistic"])
def test_named_slopes_are_the_derivatives_at_zero(name):
    assert loss(name).slope == pytest.approx(float(loss(name).derivative(jnp.zeros(()))))


def test_logistic_does_not_overflow():
    q = jnp.array([-1e6, 1e6])
    np.testing.assert_array_equal(loss("logistic")(q), [1e6, 0])
    np.testing.assert_array_equal(loss("logistic").derivative(q), [-1, 0])


def test_any_function_that_falls_at_zero_will_do():
    assert loss(lambda q: (1 - q) ** 2).slope == -2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (jnp.exp, r"loss must satisfy ℓ'\(0\) < 0; got .exp: ℓ'\(0\) = 1"),
        (jnp.square, r"loss must satisfy ℓ'\(0\) < 0; got .square: ℓ'\(0\) = 0"),
        (lambda q: -jnp.sqrt(q), r"loss must satisfy ℓ'\(0\) < 0.*= -inf"),
        (jnp.mean, "loss must map a JAX array to one of the same shape"),
        ("hinge", "loss must be one of exponential, logistic; got 'hinge'"),
    ],
)
def test_refusals(value, message):
    with pytest.raises(ValueError, match=message):
        loss(value)
