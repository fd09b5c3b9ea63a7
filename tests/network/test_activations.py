"""Activations: values, slopes, and the refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from flowsim.network.activations import activation, linear

POINTS = np.linspace(-6, 6, 49)
REFERENCE = {
    "tanh": np.tanh(POINTS),
    "gelu": POINTS * scipy.special.ndtr(POINTS),
    "silu": POINTS * scipy.special.expit(POINTS),
    "identity": POINTS,
}
SMOOTH = {  # slope at 0 by hand
    jnp.sin: 1.0,
    jax.nn.elu: 1.0,
    jax.nn.mish: 0.6,
    jax.nn.silu: 0.5,
}


@pytest.mark.parametrize("name", REFERENCE)
def test_values(name):
    np.testing.assert_allclose(activation(name)(jnp.asarray(POINTS)), REFERENCE[name], rtol=1e-14)


@pytest.mark.parametrize("name", REFERENCE)
def test_named_slopes_are_the_derivatives_at_zero(name):
    sigma = activation(name)
    assert sigma.slope == pytest.approx(float(sigma(jnp.asarray(1e-8))) / 1e-8, rel=1e-7)


@pytest.mark.parametrize(("function", "slope"), SMOOTH.items())
def test_any_smooth_function_with_a_slope_will_do(function, slope):
    assert activation(function).slope == pytest.approx(slope, rel=1e-15)


def test_strong_curvature_at_zero_is_no_kink():
    assert activation(lambda z: z + 50 * z**2).slope == 1


def test_slopes_of_any_size_and_sign():
    assert activation(lambda z: -1e-9 * jnp.tanh(z)).slope == pytest.approx(-1e-9)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("relu", "slope 1 from the right and 0 from the left"),
        (jax.nn.relu, "relu: slope 1 from the right and 0 from the left"),
        (lambda z: jnp.maximum(z, 0), "slope 1 from the right and 0 from the left"),
        (jax.nn.leaky_relu, "slope 1 from the right and 0.01 from the left"),
        (jax.nn.selu, "slope 1.05 from the right and 1.76 from the left"),
        (jnp.abs, "slope 1 from the right and -1 from the left"),
        (jax.nn.sigmoid, "sigmoid: σ(0) = 0.5"),
        (jax.nn.softplus, "softplus: σ(0) = 0.693"),
        (jnp.cos, "cos: σ(0) = 1"),
        (jnp.square, "square: σ'(0) = 0"),
        (jnp.cbrt, "cbrt: σ'(0) = "),
        (lambda z: jnp.where(z == 0, 0, jnp.sin(z) ** 2 / z), "σ'(0) = nan"),
    ],
)
def test_refuses_functions_that_break_the_rule(function, reason):
    with pytest.raises(ValueError, match=r"activation must satisfy σ\(0\) = 0 and") as error:
        activation(function)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tan", "activation must be one of tanh, gelu, silu, identity.*mean 'tanh'.*got 'tan'"),
        (3, "activation must be one of .*got 3"),
        (np.tanh, "activation must map a JAX array to one of the same shape.*tanh"),
        (jnp.sum, "activation must map a JAX array to one of the same shape.*sum, which gives"),
        (lambda z: z > 0, "activation must map .* same shape and dtype"),
    ],
)
def test_refuses_what_is_no_elementwise_function(value, message):
    with pytest.raises(ValueError, match=message):
        activation(value)


def test_refuses_functions_that_hold_arrays():
    class Scaled:
        __hash__ = None

        def __call__(self, z):
            return z

    with pytest.raises(TypeError, match="activation must be hashable; got Scaled"):
        activation(Scaled())


def test_may_be_built_under_jit():
    assert jax.jit(lambda z: activation(jnp.arctan)(z))(1.0) == pytest.approx(np.pi / 4)


def test_equal_choices_are_equal():
    assert activation("tanh") == activation(jnp.tanh)
    assert linear(0.5) == linear(0.5)
    assert linear(0.5) != linear(0.25)
