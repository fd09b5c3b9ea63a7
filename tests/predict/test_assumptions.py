"""The numbers of Assumptions 2 and 2* by finite differences, and when each holds by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.flows import Full
from flowsim.network import OneLayerTransformer, Parameters, gaussian_parameters
from flowsim.outcome import Outcome
from flowsim.predict.assumptions import Assumptions, assumptions
from flowsim.tasks import Task, gaussian
from flowsim.trajectory import Trajectory

NET = OneLayerTransformer("gelu", "logistic")


@pytest.fixture(scope="module")
def task() -> Task:
    return gaussian(30, 4, 4)


@pytest.fixture(scope="module")
def theta() -> Parameters:
    return gaussian_parameters(jax.random.key(5), 4, scale=0.5, key_width=3)


@pytest.fixture(scope="module")
def found(task, theta) -> Assumptions:
    rate = Full(NET, task).rate(0.0, theta)
    rows = lambda tree: jax.tree.map(lambda x: x[None], tree)  # noqa: E731
    run = Trajectory(np.zeros(1), rows(theta), Outcome.of("reached_end"), rates=rows(rate))
    return assumptions(NET, task, run)


def stage_1_losses(W_V, W_1, W_2, task):
    margins = np.asarray(task.y) * 0.5 * (np.asarray(task.X).mean(axis=1) @ (W_V @ W_1 @ W_2))
    return np.logaddexp(0, -margins)


def test_criticality_is_the_gradient_of_the_mean_loss_over_delta_squared(found, task, theta):
    outer = [np.asarray(W) for W in (theta.W_V, theta.W_1, theta.W_2)]
    square, h = 0.0, 1e-6
    for i, W in enumerate(outer):
        for index in np.ndindex(W.shape):
            sides = []
            for sign in (1, -1):
                moved = [x.copy() for x in outer]
                moved[i][index] += sign * h
                sides.append(stage_1_losses(*moved, task).mean())
            square += ((sides[0] - sides[1]) / (2 * h)) ** 2
    delta = max(np.abs(theta.W_Q).max(), np.abs(theta.W_K).max())
    assert found.delta[0] == pytest.approx(delta)
    assert found.criticality[0] == pytest.approx(square**0.5 / delta**2, rel=1e-6)


def test_rates_of_losses_and_directions_are_difference_quotients(found, task, theta):
    rate, h = Full(NET, task).rate(0.0, theta), 1e-6
    ends = [
        [np.asarray(getattr(theta, n) + s * h * getattr(rate, n)) for n in ("W_V", "W_1", "W_2")]
        for s in (1, -1)
    ]
    losses = [stage_1_losses(*outer, task) for outer in ends]
    largest = np.max(np.abs(losses[0] - losses[1])) / (2 * h)
    assert found.loss_rate[0] == pytest.approx(largest / found.delta[0] ** 2, rel=1e-6)
    turns = [
        np.linalg.norm(a / np.linalg.norm(a) - b / np.linalg.norm(b)) / (2 * h)
        for a, b in zip(*ends, strict=True)
    ]
    assert found.direction_rate[0] == pytest.approx(max(turns), rel=1e-6)


def test_when_each_holds():
    times = np.arange(5.0)
    record = Assumptions(
        times=times,
        condensation={"A1": np.array([0, 1, 0.5, 1, 1]), "A2": np.array([0, 1, 1, 1, 1])},
        delta=np.array([0.01, 0.01, 0.01, 0.02, 0.5]),
        criticality=np.array([0.9, 9, 0.5, 0.1, 0.1]),
        direction_rate=np.array([0, 10.0, 1.0, 0.05, 0.01]),
        loss_rate=np.array([9, 9, 9, 0.5, 0.5]),
    )
    assert record.since() == {"1": 3.0, "2": 2.0, "2*": 3.0}
    assert record.since(small=0.001)["2"] is None
    assert record.since(ratio=10.0, small=1.0)["2"] == 0.0  # never fails
    assert record.since(ratio=0.01)["2"] is None
    assert record.at(2.5)["delta"] == pytest.approx(0.015)
    assert record.since(share=0.5)["1"] == 1.0


def test_a_zero_matrix_has_no_direction_and_rates_are_needed(task, theta):
    zero = jax.tree.map(lambda x: jnp.zeros((1, *x.shape)), theta)
    run = Trajectory(np.zeros(1), zero, Outcome.of("reached_end"), rates=zero)
    assert assumptions(NET, task, run).direction_rate[0] == 0
    with pytest.raises(ValueError, match="run must have rates"):
        assumptions(NET, task, Trajectory(np.zeros(1), zero, Outcome.of("reached_end")))
