"""The residual block, against loops, its three factors and its first stage."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.flows import Full
from flowsim.network import ResidualTransformer, residual_parameters
from flowsim.tasks import Task

N, S, D, M = 6, 4, 3, 5


@pytest.fixture(scope="module")
def task():
    X = jax.random.normal(jax.random.key(0), (N, S, D))
    return Task(X, jnp.array([1.0, -1, 1, 1, -1, 1]))


def theta(scale=0.8):
    return residual_parameters(jax.random.key(1), D, scale=scale, hidden_width=M)


def test_outputs_are_those_of_plain_loops(task):
    weights = theta()
    W = {name: np.asarray(getattr(weights, name)) for name in vars(weights)}
    found = eqx.filter_jit(ResidualTransformer())(weights, task.X)
    for X, f in zip(np.asarray(task.X), found, strict=True):
        scores = np.array([X[-1] @ W["W_Q"] @ W["W_K"].T @ x / D**0.5 for x in X])
        a = np.exp(scores) / np.exp(scores).sum()
        g = sum(a[j] * X[j] @ W["W_V"] for j in range(S))
        out = X[-1] + g + np.tanh(g @ W["W_1"]) @ W["W_2"]
        assert float(f) == pytest.approx(out @ W["W_proj"], rel=1e-12)


def test_the_exponential_loss_splits_into_three_factors(task):
    net, weights = ResidualTransformer(), theta()
    factors = [jnp.exp(-task.y * part) for part in net.parts(weights, task.X)]
    product = jnp.mean(factors[0] * factors[1] * factors[2])
    assert float(net.loss(weights, task)) == pytest.approx(float(product), rel=1e-13)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_first_stage_is_the_rate_at_zero(task, loss):
    net, zero = ResidualTransformer(loss=loss), jax.tree.map(jnp.zeros_like, theta())
    rate = eqx.filter_jit(Full(net, task).rate)(0.0, zero)
    np.testing.assert_allclose(net.first_stage(zero, task, 2.0), 2 * rate.W_proj, rtol=1e-12)
    for name in ("W_Q", "W_K", "W_V", "W_1", "W_2"):
        assert float(jnp.max(jnp.abs(getattr(rate, name)))) == 0
