"""Full-model runs over seeds: the same as one by one, and honestly counted."""

import jax
import numpy as np
import pytest

from flowsim.blow_up import blow_up_time
from flowsim.ensemble import Runs, summarise_runs, two_stage_runs
from flowsim.flows.leading_order import outer
from flowsim.integrate import simulate
from flowsim.network import OneLayerTransformer, gaussian_parameters
from flowsim.outcome import Outcome
from flowsim.tasks import gaussian

SCALE = 1e-3


@pytest.fixture(scope="module")
def setting():
    return OneLayerTransformer(), gaussian(width=3), jax.random.key(0)


def test_members_are_those_of_single_runs(setting):
    net, task, key = setting
    runs = two_stage_runs(net, task, key, 3, scale=SCALE, rtol=1e-6, batch=2)
    assert len(runs) == 3
    start = gaussian_parameters(jax.random.fold_in(key, 2), task.width, scale=SCALE)
    alone = simulate(net, task, start, rtol=1e-6)
    assert Outcome(runs.outcome[2]) == alone.outcome
    for name, times in runs.events.items():
        assert times[2] == pytest.approx(alone.event_times.get(name, np.inf), rel=1e-9)
    assert runs.loss[2] == pytest.approx(float(net.loss(alone.final, task)), rel=1e-6)
    T = blow_up_time(*outer(start, net.direction(task))).time / float(net.kappa(task))
    assert runs.predicted[2] == pytest.approx(float(T), rel=1e-14)
    assert summarise_runs(runs, tolerance=0.01)["passed"] == 3


def made(escape, outcomes, trusted):
    n = len(escape)
    return Runs(
        predicted=np.full(n, 100.0),
        events={"escape": np.asarray(escape, float), "onset": np.full(n, np.inf)},
        outcome=np.asarray([Outcome.of(name).code for name in outcomes]),
        trusted=np.asarray(trusted),
        end=np.ones(n),
        loss=np.ones(n),
    )


def test_failures_are_counted_and_stand_first():
    outcomes = ["reached_end", "too_many_steps", "reached_end", "reached_end"]
    runs = made([101, np.inf, 150, 100], outcomes, [True, True, True, False])
    found = summarise_runs(runs, tolerance=0.05, worst=3)
    assert found["outcomes"] == {"reached_end": 3, "too_many_steps": 1}
    assert (found["passed"], found["failed"], found["untrusted"]) == (1, 3, 1)
    assert found["events"]["escape"]["happened"] == 3
    assert found["events"]["onset"] == {"happened": 0, "median": None}
    assert [row["member"] for row in found["worst"]] == [1, 2, 3]
    assert not any(row["passed"] for row in found["worst"])


def test_bad_arguments_are_named(setting):
    net, task, key = setting
    with pytest.raises(ValueError, match="count must be an integer >= 1"):
        two_stage_runs(net, task, key, 0, scale=SCALE)
    with pytest.raises(ValueError, match="scale must be positive"):
        two_stage_runs(net, task, key, 1, scale=0.0)
