"""The leading-order flow: conservation laws and the order of the expansion in ε."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import flowsim
from flowsim.flows import Full, LeadingOrder
from flowsim.flows.leading_order import energy, outer
from flowsim.network import OneLayerTransformer, gaussian_parameters
from flowsim.tasks import Task

WIDTHS = {"key_width": 3, "value_width": 4, "hidden_width": 6}


def small_task(seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    return Task(rng.normal(size=(9, 4, 5)), np.where(rng.random(9) < 0.5, -1.0, 1.0))


def outer_and_rates(seed: int):
    task = small_task(seed)
    theta = gaussian_parameters(jax.random.key(seed), 5, scale=1.0, **WIDTHS)
    flow = LeadingOrder(task, 0.7)
    return *outer(theta, task.direction), *outer(flow.rate(0.0, theta), task.direction)


def test_rate_is_kappa_times_the_gradient_of_the_energy():
    task = small_task()
    theta = gaussian_parameters(jax.random.key(1), 5, scale=1.0, **WIDTHS)
    expected, _ = ravel_pytree(jax.grad(energy)(theta, task.direction))
    got, _ = ravel_pytree(LeadingOrder(task, 0.7).rate(0.0, theta))
    np.testing.assert_allclose(got, 0.7 * expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("seed", [0, 1])
def test_conserves_A_B_and_D_and_grows_by_six_energies(seed):
    """theory.md, section 3: the time derivatives of A, B, D vanish; d‖θ‖²/dt̄ = 6E."""
    w, W_1, W_2, dw, dW_1, dW_2 = outer_and_rates(seed)
    half_A = jnp.outer(w, dw) - W_1 @ dW_1.T
    half_B = W_1.T @ dW_1 - jnp.outer(W_2, dW_2)
    np.testing.assert_allclose(half_A + half_A.T, 0, atol=1e-12)
    np.testing.assert_allclose(half_B + half_B.T, 0, atol=1e-12)
    assert abs(w @ dw - W_2 @ dW_2) < 1e-12
    growth = 2 * (w @ dw + jnp.vdot(W_1, dW_1) + W_2 @ dW_2)
    np.testing.assert_allclose(growth, 6 * 0.7 * (w @ W_1 @ W_2), rtol=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "gelu", lambda z: -jnp.sin(z)])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_full_rate_approaches_the_leading_order_one_like_scale_squared(activation, loss):
    """theory.md, section 2: the next terms of L are two powers of ε higher, for σ'(0) < 0 too."""
    net = OneLayerTransformer(activation, loss)
    task = small_task(2)
    flow = LeadingOrder(task, net.kappa(task), net.direction(task))
    unit = gaussian_parameters(jax.random.key(3), 5, scale=1.0, **WIDTHS)
    errors = []
    for scale in (1e-2, 1e-3):
        theta = jax.tree.map(lambda x, scale=scale: scale * x, unit)
        full, _ = ravel_pytree(Full(net, task).rate(0.0, theta))
        lead, _ = ravel_pytree(flow.rate(0.0, theta))
        errors.append(jnp.linalg.norm(full - lead) / jnp.linalg.norm(lead))
    assert np.log10(errors[0] / errors[1]) == pytest.approx(2, abs=0.01)


def test_refuses_a_kappa_that_is_not_positive():
    with pytest.raises(ValueError, match="kappa must be positive and finite; got 0"):
        LeadingOrder(small_task(), 0)


def test_is_exported():
    assert flowsim.flows.LeadingOrder is LeadingOrder
