"""The full gradient flow: conservation laws as identities of its rate (theory.md, section 3)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.flows import Full
from flowsim.network import OneLayerTransformer
from flowsim.tasks import Task

CHOICES = [
    ("tanh", "exponential", "softmax"),
    ("gelu", "logistic", "softmax"),
    ("silu", "exponential", "first_order"),
    (lambda z: z + z**2, "logistic", "uniform"),
    ("identity", "exponential", "softmax"),
]


def drift(left, left_rate, right, right_rate):
    """d/dt (leftᵀ left − right rightᵀ)."""
    half = left.T @ left_rate - right @ right_rate.T
    return half + half.T


@pytest.mark.parametrize("choice", CHOICES)
def test_conserves_value_and_query_balances(task, theta, choice):
    rate = Full(OneLayerTransformer(*choice), task).rate(0.0, theta)
    scale = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(rate))
    values = drift(theta.W_V, rate.W_V, theta.W_1, rate.W_1)
    queries = drift(theta.W_Q, rate.W_Q, theta.W_K.T, rate.W_K.T)
    np.testing.assert_allclose(values, 0, atol=1e-13 * scale)
    np.testing.assert_allclose(queries, 0, atol=1e-13 * scale)


@pytest.mark.parametrize(("sigma", "kept"), [("identity", True), ("tanh", False), ("gelu", False)])
def test_conserves_the_hidden_balance_for_linear_activation_alone(task, theta, sigma, kept):
    rate = Full(OneLayerTransformer(sigma), task).rate(0.0, theta)
    hidden = drift(theta.W_1, rate.W_1, theta.W_2[:, None], rate.W_2[:, None])
    assert (float(jnp.abs(hidden).max()) < 1e-13) == kept


def test_uniform_attention_does_not_move_keys_and_queries(task, theta):
    rate = Full(OneLayerTransformer(attention="uniform"), task).rate(0.0, theta)
    assert not jnp.any(rate.W_Q)
    assert not jnp.any(rate.W_K)


def test_the_loss_falls_at_the_square_of_the_rate(task, theta):
    """dL/dt = −‖∇L‖² along the flow, by a central difference of the loss."""
    net = OneLayerTransformer("gelu", "logistic")
    rate = Full(net, task).rate(0.0, theta)
    h = 2e-6
    ahead, behind = (
        net.loss(jax.tree.map(lambda w, r, h=h: w + h * r, theta, rate), task) for h in (h, -h)
    )
    square = sum(float(jnp.sum(r**2)) for r in jax.tree.leaves(rate))
    assert float(ahead - behind) / (2 * h) == pytest.approx(-square, rel=1e-8)


def test_another_dataset_of_the_same_shape_does_not_trace_again(task, theta):
    traces = []

    @jax.jit
    def rate(flow, theta):
        traces.append(flow)
        return flow.rate(0.0, theta)

    rate(Full(OneLayerTransformer(), task), theta)
    rate(Full(OneLayerTransformer(), Task(3 * task.X[::-1], -task.y)), theta)
    assert len(traces) == 1
