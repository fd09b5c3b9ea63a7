"""The modified flow of gradient descent (Barrett & Dherin 2021; theory.md, section 9)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from flowsim.flows import Full, Modified
from flowsim.network import OneLayerTransformer

NET = OneLayerTransformer("gelu", "logistic")


def test_rate_is_the_finite_difference_of_the_penalised_loss(task, theta):
    """Central differences of L + (η/4)‖∇L‖² along random directions."""
    eta, h = 0.3, 2e-6
    flat, unravel = ravel_pytree(theta)

    @jax.jit
    def penalised(flat):
        gradient = jax.grad(NET.loss)(unravel(flat), task)
        square = sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient))
        return NET.loss(unravel(flat), task) + eta / 4 * square

    rate, _ = ravel_pytree(Modified(NET, task, eta).rate(0.0, theta))
    for seed in range(3):
        u = jnp.asarray(np.random.default_rng(seed).normal(size=flat.size))
        u = u / jnp.linalg.norm(u)
        slope = (penalised(flat + h * u) - penalised(flat - h * u)) / (2 * h)
        assert float(rate @ u) == pytest.approx(-float(slope), abs=1e-9)


@jax.jit
def gap_after_a_step(flow, plain, theta, eta):
    """Distance between a Runge–Kutta step of a flow over time η and a step of descent."""
    flat, unravel = ravel_pytree(theta)

    def rate(flow, flat):
        return ravel_pytree(flow.rate(0.0, unravel(flat)))[0]

    a = rate(flow, flat)
    b = rate(flow, flat + eta / 2 * a)
    c = rate(flow, flat + eta / 2 * b)
    d = rate(flow, flat + eta * c)
    return jnp.linalg.norm(eta / 6 * (a + 2 * b + 2 * c + d) - eta * rate(plain, flat))


@pytest.mark.parametrize(("modified", "order"), [(True, 3), (False, 2)])
def test_one_step_of_descent_meets_the_modified_flow_one_order_better(task, theta, modified, order):
    """Local error of a step η: O(η³) from the modified flow, O(η²) from the plain one."""
    plain, errors = Full(NET, task), []
    for eta in (4e-3, 2e-3):
        flow = Modified(NET, task, eta) if modified else plain
        errors.append(float(gap_after_a_step(flow, plain, theta, eta)))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


def test_another_learning_rate_does_not_trace_again(task, theta):
    traces = []

    @jax.jit
    def rate(flow, theta):
        traces.append(flow)
        return flow.rate(0.0, theta)

    for eta in (1e-2, 1e-3):
        rate(Modified(NET, task, eta), theta)
    assert len(traces) == 1


def test_refuses_a_learning_rate_that_is_not_positive(task):
    with pytest.raises(ValueError, match=r"learning_rate must be positive and finite; got -0\.1"):
        Modified(NET, task, -0.1)
