"""The plateau against scipy's minimiser and linear separability decided by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from flowsim.network import OneLayerTransformer
from flowsim.predict.plateau import find_plateau, separates
from flowsim.tasks import Task


def task_of(means, y) -> Task:
    """Two tokens a sample, m ± noise, so that the means are as given."""
    noise = np.random.default_rng(3).normal(size=np.shape(means))
    return Task(np.stack([means + noise, means - noise], axis=1), y)


@pytest.fixture(scope="module")
def task() -> Task:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(40, 4))
    return task_of(means, np.where(means[:, 0] + 0.8 * rng.normal(size=40) > 0, 1.0, -1.0))


@pytest.mark.parametrize(("sigma", "ell"), [("tanh", "exponential"), ("gelu", "logistic")])
def test_the_loss_is_the_least_that_scipy_finds(task, sigma, ell):
    plateau = find_plateau(OneLayerTransformer(sigma, ell), task)
    slope = {"tanh": 1.0, "gelu": 0.5}[sigma]
    rows = np.asarray(task.y)[:, None] * np.asarray(task.X).mean(axis=1) * slope
    loss = {"exponential": lambda q: np.exp(-q), "logistic": lambda q: np.logaddexp(0, -q)}[ell]
    solved = scipy.optimize.minimize(lambda b: loss(rows @ b).mean(), np.zeros(4), tol=1e-12)
    assert plateau.exists
    assert plateau.loss == pytest.approx(solved.fun, abs=1e-10)
    np.testing.assert_allclose(plateau.beta, solved.x, atol=1e-5)
    assert plateau.gradient < 1e-12


def test_one_dimension_in_closed_form():
    """Means 1 with labels +, +, −: (2 e^(−b) + e^b)/3 is least at b = ln(2)/2, with √8/3."""
    plateau = find_plateau(OneLayerTransformer(), task_of(np.ones((3, 1)), [1, 1, -1]))
    assert plateau.loss == pytest.approx(8**0.5 / 3, rel=1e-14)
    assert float(plateau.beta[0]) == pytest.approx(np.log(2) / 2, rel=1e-12)


def test_means_that_do_not_span_the_space_give_beta_in_their_span():
    """Means u, u, 3u on one line: 2 e^(−b) + e^(3b) is least at e^(4b) = 2/3, b = β·u."""
    u = np.array([1.0, 2.0, 0.0])
    plateau = find_plateau(OneLayerTransformer(), task_of(np.outer([1, 1, 3], u), [1, 1, -1]))
    np.testing.assert_allclose(plateau.beta, np.log(2 / 3) / 4 * u / (u @ u), atol=1e-12)


@pytest.mark.parametrize(
    ("means", "y", "answer"),
    [
        ([[1.0, 0], [-1, 0.5]], [1, -1], True),  # strictly
        ([[1.0, 0], [0, 1], [0, 1]], [1, 1, -1], True),  # weakly: (1, 0) leaves two at zero
        ([[1.0, 0], [1, 0]], [1, -1], False),
        ([[1.0, 1], [-1, 1], [0, -1]], [1, 1, 1], False),  # zero inside the triangle
    ],
)
def test_separation_by_hand(means, y, answer):
    margins = np.asarray(y)[:, None] * np.asarray(means)
    assert separates(margins) is answer
    assert separates(1e-9 * margins) is answer


def test_separable_means_have_no_plateau():
    task = task_of(np.array([[1.0, 0], [-1, 0.5]]), [1, -1])
    plateau = find_plateau(OneLayerTransformer(), task)
    assert (plateau.exists, plateau.loss, plateau.beta) == (False, None, None)


def test_a_negative_slope_turns_beta_round(task):
    minus = find_plateau(OneLayerTransformer(lambda z: -jnp.tanh(z)), task)
    plus = find_plateau(OneLayerTransformer("tanh"), task)
    np.testing.assert_allclose(minus.beta, -plus.beta, atol=1e-10)
