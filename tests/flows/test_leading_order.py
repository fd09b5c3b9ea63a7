"""The leading-order flow: conservation laws and the order of the expansion in ε."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from flowsim.flows import Full, LeadingOrder
from flowsim.flows.leading_order import energy, outer
from flowsim.network import OneLayerTransformer


def test_rate_is_kappa_times_the_gradient_of_the_energy(task, theta):
    expected, _ = ravel_pytree(jax.grad(energy)(theta, task.direction))
    got, _ = ravel_pytree(LeadingOrder(task, 0.7).rate(0.0, theta))
    np.testing.assert_allclose(got, 0.7 * expected, rtol=1e-13, atol=1e-14)


def test_conserves_A_B_and_D_and_grows_by_six_energies(task, theta):
    """theory.md, section 3: the time derivatives of A, B, D vanish; d‖θ‖²/dt̄ = 6E."""
    v = task.direction
    w, W_1, W_2 = outer(theta, v)
    dw, dW_1, dW_2 = outer(LeadingOrder(task, 0.7).rate(0.0, theta), v)
    half_A = jnp.outer(w, dw) - W_1 @ dW_1.T
    half_B = W_1.T @ dW_1 - jnp.outer(W_2, dW_2)
    np.testing.assert_allclose(half_A + half_A.T, 0, atol=1e-14)
    np.testing.assert_allclose(half_B + half_B.T, 0, atol=1e-14)
    assert abs(w @ dw - W_2 @ dW_2) < 1e-14
    growth = 2 * (w @ dw + jnp.vdot(W_1, dW_1) + W_2 @ dW_2)
    np.testing.assert_allclose(growth, 6 * 0.7 * (w @ W_1 @ W_2), rtol=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "gelu", lambda z: -jnp.sin(z)])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_full_rate_approaches_the_leading_order_one_like_scale_squared(
    task, theta, activation, loss
):
    """theory.md, section 2: the next terms of L are two powers of ε higher, for σ'(0) < 0 too."""
    net = OneLayerTransformer(activation, loss)
    flow = LeadingOrder(task, net.kappa(task), net.direction(task))
    errors = []
    for scale in (1e-2, 1e-3):
        small = jax.tree.map(lambda x, scale=scale: scale * x, theta)
        full, _ = ravel_pytree(Full(net, task).rate(0.0, small))
        lead, _ = ravel_pytree(flow.rate(0.0, small))
        errors.append(jnp.linalg.norm(full - lead) / jnp.linalg.norm(lead))
    assert np.log10(errors[0] / errors[1]) == pytest.approx(2, abs=0.01)


def test_refusals(task):
    with pytest.raises(ValueError, match=r"kappa must be positive and finite; got 0\.0"):
        LeadingOrder(task, 0)
    with pytest.raises(ValueError, match="shapes must chain: direction has length 4"):
        LeadingOrder(task, 1.0, direction=np.ones(4))
