"""Sharpness against dense Hessians and against where gradient descent turns unstable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from flowsim.observables.sharpness import sharpness, top_eigenvalue


def test_sharpness_is_the_top_eigenvalue_of_the_hessian(net, task, theta0):
    vector, restore = ravel_pytree(theta0)
    hessian = jax.hessian(lambda v: net.loss(restore(v), task))(vector)
    expected = np.linalg.eigvalsh(np.asarray(hessian))[-1]
    assert float(sharpness(net, task, theta0)) == pytest.approx(expected, rel=1e-6)
    assert float(sharpness(net, task, theta0, 500)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("values", [[-3.0, -2.0, -1.0, -1.0], [5.0, 5.0, 1.0, -9.0], [2.0] * 4])
def test_lanczos_through_invariant_subspaces(values):
    """All negative, repeated, and a multiple of the identity: no zero creeps in."""
    diagonal = jnp.asarray(values)
    found = top_eigenvalue(lambda x: diagonal * x, jnp.ones(4), 10)
    assert float(found) == pytest.approx(max(values), rel=1e-13)


def test_descent_is_stable_below_two_over_eta_only():
    """On ½ θᵀHθ, |1 − ηλ| < 1 for all λ if and only if λ_max < 2/η."""
    from flowsim.descent import descend

    H = jnp.diag(jnp.array([0.1, 1.0, 4.0]))
    top = float(top_eigenvalue(lambda x: H @ x, jnp.ones(3), 3))
    field = lambda t, y, args: -H @ y  # noqa: E731
    below = descend(field, jnp.ones(3), learning_rate=1.98 / top, steps=400)
    above = descend(field, jnp.ones(3), learning_rate=2.02 / top, steps=400)
    assert abs(below.final[2]) < 1e-1
    assert abs(above.final[2]) > 1e1
