"""Stage 2: F of [CL 15] against its definition and against autodiff; the closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from flowsim.flows import Full, KeyQuery, key_query_matrix
from flowsim.network import OneLayerTransformer

BETA = jnp.array([0.3, -0.8, 0.1, 0.5, 0.2])


@pytest.mark.parametrize(("ell", "sigma"), [("exponential", "tanh"), ("logistic", "gelu")])
def test_F_is_the_sum_of_its_definition(task, ell, sigma):
    X, y = np.asarray(task.X), np.asarray(task.y)
    slope = {"tanh": 1.0, "gelu": 0.5}[sigma]
    expected = np.zeros((5, 5))
    for X_i, y_i in zip(X, y, strict=True):
        q = y_i * slope * (X_i.mean(axis=0) @ BETA)
        pull = np.exp(-q) if ell == "exponential" else 1 / (1 + np.exp(q))
        C_i = sum(np.outer(x, x - X_i.mean(axis=0)) for x in X_i)
        expected += pull * y_i * np.outer(X_i[-1], BETA @ C_i)
    expected *= slope / (9 * 4 * np.sqrt(3))
    net = OneLayerTransformer(sigma, ell)
    np.testing.assert_allclose(key_query_matrix(net, task, BETA, key_width=3), expected, rtol=1e-12)
    width = key_query_matrix(net, task, BETA)
    np.testing.assert_allclose(width, expected * np.sqrt(3 / 5), rtol=1e-12)


@pytest.mark.parametrize(("attention", "order"), [("first_order", 2), ("softmax", 2)])
@pytest.mark.parametrize("ell", ["exponential", "logistic"])
def test_F_gives_the_rate_of_the_linearised_model_at_small_keys_and_queries(
    task, theta, attention, order, ell
):
    """Autodiff of the linearised model at W_Q, W_K of size δ: relative difference O(δ²)."""
    net = OneLayerTransformer("gelu", ell, attention).linearised()
    beta = theta.W_V @ theta.W_1 @ theta.W_2
    flow = KeyQuery(key_query_matrix(net, task, beta, key_width=3))
    errors = []
    for size in (1e-2, 1e-3):
        small = eqx.tree_at(lambda w: (w.W_Q, w.W_K), theta, (size * theta.W_Q, size * theta.W_K))
        full = Full(net, task).rate(0.0, small)
        fast = flow.rate(0.0, (small.W_Q, small.W_K))
        pairs = zip((full.W_Q, full.W_K), fast, strict=True)
        errors.append(max(float(jnp.linalg.norm(a - b) / jnp.linalg.norm(a)) for a, b in pairs))
    assert errors[1] < 1e-5
    assert np.log10(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)


def test_closed_form_with_the_numbers_of_the_theory():
    """theory.md, section 7: F = diag(2, 1), W_Q(0) = 1e-3 I, W_K(0) = 0, t = 3."""
    flow = KeyQuery(np.diag([2, 1]))
    rate = jax.jit(lambda W: jnp.stack(flow.rate(0.0, (W[0], W[1]))))
    start = np.stack([1e-3 * np.eye(2), np.zeros((2, 2))])
    solution = scipy.integrate.solve_ivp(
        lambda t, y: np.asarray(rate(y.reshape(2, 2, 2))).ravel(),
        (0, 3), start.ravel(), method="DOP853", rtol=1e-12, atol=1e-16,
    )  # fmt: skip
    W_Q, W_K = solution.y[:, -1].reshape(2, 2, 2)
    np.testing.assert_allclose(W_Q, np.diag([0.20171564, 0.01006766]), atol=5e-9)
    np.testing.assert_allclose(W_K, np.diag([0.20171316, 0.01001787]), atol=5e-9)


def test_F_may_depend_on_time():
    F = jnp.arange(4.0).reshape(2, 2)
    state = jnp.ones((2, 3)), 2 * jnp.ones((2, 3))
    moving = KeyQuery(lambda t: t * F).rate(2.0, state)
    np.testing.assert_allclose(moving[0], 2 * F @ state[1])
    np.testing.assert_allclose(moving[1], 2 * F.T @ state[0])


def test_refusals(task):
    with pytest.raises(ValueError, match="shapes must chain: axis 0 of F has length 2"):
        KeyQuery(np.ones((2, 3)))
    with pytest.raises(ValueError, match="shapes must chain: beta has length 4"):
        key_query_matrix(OneLayerTransformer(), task, jnp.ones(4))
    with pytest.raises(ValueError, match="key_width must be an integer >= 1; got 0"):
        key_query_matrix(OneLayerTransformer(), task, BETA, key_width=0)
