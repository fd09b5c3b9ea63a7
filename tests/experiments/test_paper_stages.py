"""How stages are dated, on records whose stages are known, and the training against plain steps."""

import dataclasses
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.experiments.paper import presets, stages, third_stage, training
from flowsim.experiments.paper.figure_1 import mean_cosine
from flowsim.network import OneLayerTransformer
from flowsim.network.decoder import Layer
from flowsim.outcome import Outcome
from flowsim.trajectory import Trajectory

TIMES = np.arange(0.0, 60.0)


def record(**curves):
    """Stages with given curves and nothing else."""
    empty = Trajectory(TIMES, np.zeros((TIMES.size, 1)), Outcome.of("reached_end"), clock="steps")
    ranks = {name: np.ones(TIMES.size) for name in stages.MATRICES}
    return stages.Stages(1.0, 2.0, 3.0, 20.0, {}, curves, ranks, {}, empty)


def test_first_and_settled_times():
    holds = (TIMES >= 5) & (TIMES != 9)
    assert stages.first(TIMES, holds) == 5
    assert stages.settled(TIMES, holds, 8) == 5
    assert stages.settled(TIMES, holds, 40) == 10
    assert stages.settled(TIMES, TIMES < 30, 40) is None
    assert stages.first(TIMES, TIMES > 99) is None


def test_a_departure_is_the_last_time_that_a_condensed_matrix_loses_its_line():
    rate = np.where(TIMES < 10, 0.0, np.where(TIMES < 40, 1.0, 0.5))
    rate[20] = 0.8  # and back
    rows = {
        "W_1": rate,
        "W_V": np.ones(TIMES.size),
        "W_2": np.full(TIMES.size, 0.5),
    }
    curves = {
        "W_1 columns": rows["W_1"],
        "W_V columns": rows["W_V"],
        "W_2 rows": rows["W_2"],
        "W_Q columns": rate,
        "W_K columns": rate,
    }
    seen = record(**curves)
    found = {name: third_stage.departure(seen, name) for name in rows}
    assert found["W_1"]["condensed at step"] == 10
    assert found["W_1"]["left at step"] == 40
    assert found["W_V"]["left at step"] is None
    assert found["W_2"]["condensed at step"] is None
    assert found["W_2"]["left at step"] is None


def test_neurons_count_as_condensed_where_they_stay_so(monkeypatch):
    """A rate that comes, goes and comes back before W_Q collapses counts from its return."""
    rate = np.where((TIMES >= 10) & (TIMES != 14), 1.0, 0.0)
    ranks = {name: np.abs(TIMES - 30) + 1 for name in stages.MATRICES}
    sizes = {name: 1 + TIMES for name in stages.MATRICES}
    monkeypatch.setattr(stages, "structure", lambda _: (dict.fromkeys(stages.NEURONS, rate), ranks))
    monkeypatch.setattr(stages, "along", lambda run, function: sizes)
    monkeypatch.setattr(stages, "step_changes", lambda _: {})
    empty = Trajectory(TIMES, np.zeros((TIMES.size, 1)), Outcome.of("reached_end"), clock="steps")
    seen = stages.stages(SimpleNamespace(run=empty))
    assert (seen.condensed, seen.onset_norm, seen.collapse) == (15, 1, 30)
    assert len(seen.early().run) == 1 + int(stages.BEYOND * 30)
    assert len(seen.early(20.0).run) == 21


def test_structure_of_a_matrix_that_is_known():
    line = jnp.outer(jnp.array([1.0, -2.0, 0.5]), jnp.array([3.0, 1.0, -1.0, 2.0]))
    found = stages.of_matrix(line)
    assert {name: float(x) for name, x in found.items()} == pytest.approx(
        {"rank": 1.0, "columns": 1.0, "rows": 1.0}
    )
    found = stages.of_matrix(jnp.eye(4))
    assert float(found["rank"]) == pytest.approx(4)
    assert float(found["columns"]) == pytest.approx(0.25)
    assert mean_cosine(np.eye(4)) == 0
    assert mean_cosine(np.outer([1.0, -1.0, 2.0], [1.0, 2.0])) == pytest.approx(1)


@pytest.fixture(scope="module")
def small():
    return presets.preset_of(
        "small",
        {
            "width": 4, "hidden_width": 5, "samples": 20, "test_samples": 5, "batch_size": 10,
            "epochs": 3, "warm_up_epochs": 2, "decay_epochs": 4, "moments": 4, "rate": 0.5,
        },
    )  # fmt: skip


def test_changes_are_those_of_single_steps_of_adam(small):
    trained = training.train_decoder(small, "tanh", 7)
    np.testing.assert_array_equal(trained.run.times, [0, 2, 3, 5])
    changes = stages.step_changes(trained)
    # the first step of Adam moves every entry by the learning rate, here that of the warm-up
    eta = small.learning_rate * (1 / 15 + (1 - 1 / 15) / 4)
    for name in stages.MATRICES:
        start = np.asarray(getattr(trained.run.states, name)[0])
        expected = eta * start.size**0.5 / np.linalg.norm(start)
        assert changes[name][0] == pytest.approx(expected, rel=0.02)
        last = np.asarray(getattr(trained.run.states, name)[-1])
        after = np.asarray(getattr(trained.following, name)[-1])
        moved = np.linalg.norm(after - last) / np.linalg.norm(last)
        assert changes[name][-1] == pytest.approx(moved, rel=1e-4)


def test_a_layer_along_o_puts_out_what_the_decoder_does(small):
    net, data, _ = training.setting(small, "tanh")
    keys = jax.random.split(jax.random.key(0), 5)
    shapes = ((4, 4), (4, 4), (4, 4), (4, 5), (5, 4))
    layer = Layer(*(jax.random.normal(k, s, jnp.float32) for k, s in zip(keys, shapes)))  # noqa: B905
    o = jnp.asarray([0.5, -1.0, 2.0, 0.25], jnp.float32)
    X = net.embed(data.tokens)
    along_o = training.seen_along(o, layer)
    binary = eqx.filter_jit(OneLayerTransformer())(along_o, X)
    decoder = eqx.filter_jit(net.block)(layer, X[:, -1:], X)[:, 0] @ o
    np.testing.assert_allclose(binary, decoder, rtol=2e-4, atol=1e-5)


def test_a_training_that_diverges_is_refused(small):
    wild = dataclasses.replace(small, learning_rate=1e30)
    with pytest.raises(ValueError, match="learning_rate must let the training stay finite, which"):
        training.train_decoder(wild, "tanh", 7)


def test_presets_are_checked():
    assert presets.preset_of("paper").width == 640
    assert dataclasses.asdict(presets.preset_of("small"))["seeds"] == presets.SEEDS
    for changes, message in (
        ({"epochs": 0}, "epochs must be an integer >= 1; got 0"),
        ({"rate": -1.0}, "rate must be positive and finite"),
        ({"seeds": ()}, "seeds must not be empty"),
    ):
        with pytest.raises(ValueError, match=message):
            presets.preset_of("small", changes)
