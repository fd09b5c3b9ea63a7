"""The moments of a task, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowsim.tasks import Task

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6, 3, 4)) + 0.3
Y = np.array([1, -1, 1, 1, -1, 1])


def test_moments_agree_with_loops():
    """theory.md, section 2, as written: S = Σ_i y_i Σ_j X_ij."""
    task = Task(X, Y)
    S = sum(Y[i] * X[i, j] for i in range(6) for j in range(3))
    assert np.allclose(task.direction, S / np.linalg.norm(S), rtol=1e-14)
    assert float(task.strength) == pytest.approx(np.linalg.norm(S) / 18, rel=1e-14)
    assert np.allclose(task.mean_tokens[2], X[2].sum(0) / 3, rtol=1e-14)
    assert np.array_equal(task.last_tokens, X[:, 2])
    assert (task.width, task.size, task.length) == (4, 6, 3)
    assert repr(task) == "Task('user', samples=6, tokens=3, width=4)"


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(6)), st.floats(1e-200, 1e200))
def test_permutation_and_scale(order, factor):
    """v is invariant under both; c is invariant under permutation and scales with X."""
    first, second = Task(X, Y), Task(factor * X[list(order)], Y[list(order)])
    assert np.allclose(first.direction, second.direction, rtol=0, atol=1e-13)
    assert float(second.strength) == pytest.approx(factor * float(first.strength), rel=1e-13)


def test_orthogonal_change_of_basis():
    """X → XR turns v into vR and leaves c."""
    R = np.linalg.qr(RANDOM.normal(size=(4, 4)))[0]
    first, second = Task(X, Y), Task(X @ R, Y)
    assert np.allclose(first.direction @ R, second.direction, rtol=0, atol=1e-14)
    assert float(first.strength) == pytest.approx(float(second.strength), rel=1e-14)


@pytest.mark.parametrize(
    ("tokens", "labels", "message"),
    [
        (X, Y[:5], "y has length 5"),
        (X, 0 * Y, "y must hold labels −1 and .1 only; got .0.0 at index 0"),
        (X, np.where(Y > 0, 2, -1), "y must hold labels"),
        (X, np.where(Y > 0, np.nan, -1), "y must be finite"),
        (X[0], Y, "X must have 3 axes"),
        (X[:, :0], Y, "X must not be empty"),
        (np.where(X > 1, np.inf, X), Y, "X must be finite; got .inf at index"),
        (X - np.mean(Y[:, None, None] * X, (0, 1)) * Y[:, None, None], Y, "S = .* vanish"),
        (0 * X, Y, "S = .* vanish"),
    ],
)
def test_refusals_name_argument_rule_and_value(tokens, labels, message):
    with pytest.raises(ValueError, match=message):
        Task(tokens, labels)


def test_a_task_can_be_made_under_jit():
    direction = jax.jit(lambda X, y: Task(X, y).direction)(jnp.asarray(X), jnp.asarray(Y))
    assert np.allclose(direction, Task(X, Y).direction, rtol=1e-14)
