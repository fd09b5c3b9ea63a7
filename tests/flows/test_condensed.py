"""The condensed network against the full one on the embedded manifold (theory.md, section 6)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.flows import Condensed, CondensedState, Full
from flowsim.flows.condensed import embed
from flowsim.network import OneLayerTransformer

SIGMAS = ["tanh", "gelu", "silu", "identity", lambda z: z + z**2]


@pytest.fixture
def state() -> CondensedState:
    rng = np.random.default_rng(5)
    shapes = (5,), (6,), (6,), (5, 3), (5, 3)
    return CondensedState(*(jnp.asarray(rng.normal(size=shape)) for shape in shapes))


NORMAL = np.array([0.4, -1.3, 0.2, 0.7])


@pytest.mark.parametrize("attention", ["softmax", "first_order", "uniform"])
@pytest.mark.parametrize("ell", ["exponential", "logistic"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_full_rate_at_the_embedded_state_is_the_embedded_rate(
    task, state, sigma, ell, attention
):
    """So the manifold is invariant and the condensed flow is the full one on it, to rounding."""
    net = OneLayerTransformer(sigma, ell, attention)
    full = Full(net, task).rate(0.0, embed(state, NORMAL))
    condensed = embed(Condensed(net, task).rate(0.0, state), NORMAL)
    for name in ("W_Q", "W_K", "W_V", "W_1", "W_2"):
        expected, got = getattr(full, name), getattr(condensed, name)
        scale = max(float(jnp.abs(expected).max()), 1e-300)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * scale, err_msg=name)


def test_outputs_and_loss_are_those_of_the_embedded_weights(task, state):
    net = OneLayerTransformer("gelu", "logistic")
    flow = Condensed(net, task)
    theta = embed(state, NORMAL)
    np.testing.assert_allclose(flow.outputs(state), net(theta, task.X), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(flow.loss(state), net.loss(theta, task), rtol=1e-13)


def test_linear_activation_and_uniform_attention_reduce_to_radius_and_direction(task):
    """theory.md, section 6: with p = ρu, q = r = ρm the radius obeys ρ̇ = ρ² G·u and
    u̇ = ρ (G − u (G·u)), G the mean of −ℓ' y x̄ at β = ρ³u."""
    rng = np.random.default_rng(6)
    u, m = (x / np.linalg.norm(x) for x in (rng.normal(size=5), rng.normal(size=6)))
    rho, zero = 0.8, jnp.zeros((5, 3))
    state = CondensedState(*(jnp.asarray(rho * x) for x in (u, m, m)), zero, zero)
    net = OneLayerTransformer("identity", "logistic", "uniform")
    rate = Condensed(net, task).rate(0.0, state)
    x, y = np.asarray(task.X).mean(axis=1), np.asarray(task.y)
    G = (y / (1 + np.exp(y * (x @ u) * rho**3))) @ x / len(y)
    np.testing.assert_allclose(rate.q, rho**2 * (G @ u) * m, rtol=1e-12)
    np.testing.assert_allclose(rate.r, rho**2 * (G @ u) * m, rtol=1e-12)
    expected = rho**2 * (G @ u) * u + rho * rho * (G - u * (G @ u))
    np.testing.assert_allclose(rate.p, expected, rtol=1e-12)


def test_embedding_scales_n_to_unit_length_and_refuses_zero(state):
    theta = embed(state, 5 * NORMAL)
    assert float(jnp.linalg.norm(theta.W_V)) == pytest.approx(float(jnp.linalg.norm(state.p)))
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b), theta, embed(state, NORMAL)))
    with pytest.raises(ValueError, match=r"n must not be zero; got 0\.0"):
        embed(state, np.zeros(4))
