"""A run beside its prediction: errors by hand, departures, refusals."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.compare import PredictionComparison, compare
from flowsim.integrate import simulate
from flowsim.network import OneLayerTransformer, Parameters, gaussian_parameters
from flowsim.predict import Prediction, predict
from flowsim.report.figures import departure, predictions
from flowsim.tasks import Task, gaussian
from flowsim.trajectory import Trajectory

NET = OneLayerTransformer("tanh", "logistic")
#: As in the tests of predictions, so that both compile together.
WIDTHS = {"key_width": 3, "value_width": 5, "hidden_width": 6}


def start(scale: float) -> Parameters:
    return gaussian_parameters(jax.random.key(2), 4, scale=scale, **WIDTHS)


@pytest.fixture(scope="module")
def task() -> Task:
    return gaussian(60, 4, 4)


@pytest.fixture(scope="module")
def prediction(task) -> Prediction:
    return predict(NET, task, start(1e-3))


@pytest.fixture(scope="module")
def run(task, prediction) -> Trajectory:
    theta0 = start(1e-3)
    return simulate(NET, task, theta0, t1=float(prediction.trajectory.times[-1]))


@pytest.fixture(scope="module")
def found(run, prediction) -> PredictionComparison:
    return compare(run, prediction)


def test_errors_are_those_computed_by_hand(run, prediction, found, task):
    row = 200
    t = found.times[row]
    a, b = run.evaluate(t), prediction.trajectory.evaluate(t)
    loss0, loss, other = (float(NET.loss(x, task)) for x in (run.evaluate(0.0), a, b))
    norm = np.linalg.norm
    for name in ("W_Q", "W_K", "W_V", "W_1", "W_2"):
        W, V = np.asarray(getattr(a, name)), np.asarray(getattr(b, name))
        assert found.errors[name][row] == pytest.approx(norm(V - W) / norm(W), rel=1e-9)
    expected = abs(norm(b.W_1) - norm(a.W_1)) / norm(a.W_1)
    assert found.errors["norm W_1"][row] == pytest.approx(expected, rel=1e-6)
    assert found.errors["loss"][row] == pytest.approx(abs(other - loss) / (loss0 - loss), rel=1e-6)


def test_events_and_departures(run, prediction, found, task):
    T, unit = float(prediction.blow_up.time), 1 / float(NET.kappa(task))
    assert found.blow_up.predicted == T
    assert found.blow_up.simulated == run.event_times["escape"]
    assert found.onset.error == prediction.onset.time - run.event_times["onset"]
    assert found.onset.relative_error == abs(found.onset.error / (prediction.onset.time - T))
    assert found.departure is None
    assert max(found.largest_while_trusted.values()) < 5e-3
    # the leading-order W_2 ~ m/(κ(T − t)) leaves when ‖W_2‖ is of order one
    assert T - 5 * unit < found.leading_order_departure < T
    t = found.leading_order_departure
    assert 0.1 < float(jnp.linalg.norm(run.evaluate(t).W_2)) < 3


def test_the_separated_prediction_agrees_up_to_the_onset_and_departs_in_stage_2(
    run, prediction, task, found
):
    theta0 = start(1e-3)
    separated = predict(NET, task, theta0, separated=True)
    other = compare(run, separated)
    assert other.onset.relative_error < 5e-3
    assert other.onset_norm.relative_error < 5e-3
    assert max(other.at_onset.values()) < 5e-3
    assert other.departure is not None
    assert other.departure > run.event_times["onset_norm"]


def test_a_wrong_prediction_shows(run, prediction):
    W_2 = prediction.trajectory.states.W_2
    wrong = eqx.tree_at(lambda p: p.trajectory.states.W_2, prediction, W_2.at[1:].multiply(1.5))
    found = compare(run, wrong)
    assert found.at_end["norm W_2"] == pytest.approx(0.5, abs=2e-3)
    assert found.departure == found.times[found.times >= found.departure][0]
    unit = 1 / float(NET.kappa(prediction.task))
    assert found.departure >= float(prediction.blow_up.time) - 2 * unit


def test_a_run_that_ends_before_the_onset_has_none(run, prediction):
    """Nothing is invented for what did not happen."""
    rows = int(np.searchsorted(run.times, run.event_times["escape"]))
    cut = lambda tree: jax.tree.map(lambda x: x[:rows], tree)  # noqa: E731
    short = Trajectory(run.times[:rows], cut(run.states), run.outcome, rates=cut(run.rates))
    found = compare(short, prediction)
    assert found.onset.predicted == prediction.onset.time
    assert (found.onset.simulated, found.onset.error, found.onset.relative_error) == (None,) * 3
    assert (found.blow_up.simulated, found.at_onset) == (None, {})
    assert found.times[-1] == run.times[rows - 1]


def test_the_summary_is_json_without_infinities(found):
    text = json.dumps(found.as_dict(), allow_nan=False)
    back = json.loads(text)
    assert back["onset"]["simulated"] == found.onset.simulated
    assert back["trusted_until"] is None
    assert set(back["at_blow_up"]) == set(found.errors)
    assert repr(found).startswith("PredictionComparison(256 times\n  blow_up: predicted ")


def test_refusals(run, prediction, task):
    with pytest.raises(TypeError, match="run must be a Trajectory; got 3"):
        compare(3, prediction)
    with pytest.raises(TypeError, match="other must be a Prediction or a Trajectory; got 'x'"):
        compare(run, "x")
    other = eqx.tree_at(lambda r: r.states.W_2, run, 2 * run.states.W_2)
    with pytest.raises(ValueError, match="run must have the start of the prediction"):
        compare(other, prediction)
    steps = Trajectory(run.times, run.states, run.outcome, clock="steps")
    with pytest.raises(ValueError, match=r"run.clock must be 'training'; got 'steps'"):
        compare(steps, prediction)


def test_one_figure_lays_predictions_of_several_starts_over_their_runs(run, prediction, task):
    small = start(2.5e-4)
    second = predict(NET, task, small)
    other = simulate(NET, task, small, t1=float(second.trajectory.times[-1]))
    ax = predictions([(run, prediction), (other, second)], "W_K")
    curves = [line for line in ax.lines if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in curves] == [
        r"$\varepsilon = 0.001$", "predicted", r"$\varepsilon = 0.00026$", "_"
    ]  # fmt: skip
    colors = {line.get_color() for line in curves}
    assert len(colors) == 3  # one for each start, one for both predictions
    assert len({line.get_marker() for line in curves}) == 3  # so in grey too
    onsets = []
    for simulated, predicted in (curves[:2], curves[2:]):
        onset, expected = (
            np.interp(np.log(2), np.log(line.get_ydata()), line.get_xdata())
            for line in (simulated, predicted)
        )
        assert expected == pytest.approx(onset, abs=0.05)
        onsets.append(onset)
    assert onsets[1] == pytest.approx(onsets[0], abs=0.2)  # growth is relative: it starts alike


def test_an_untrusted_run_marks_the_figure_of_several(run, prediction):
    untrusted = eqx.tree_at(lambda r: r.trusted, run, False)
    pair = (run, prediction)
    assert not predictions([pair, pair], "W_Q").texts
    marks = predictions([pair, (untrusted, prediction)], "W_Q").texts
    assert [text.get_text() for text in marks] == ["untrusted run"]


def test_figures_lay_predictions_over_runs_and_mark_the_departure(run, prediction, task):
    ax = predictions([(run, prediction)], "W_Q")
    simulated, predicted = (line for line in ax.lines if len(line.get_xdata()) > 2)
    kappa, T = float(NET.kappa(task)), float(prediction.blow_up.time)
    norm = np.linalg.norm(run.states.W_Q[-1]) / np.linalg.norm(run.states.W_Q[0])
    assert simulated.get_ydata()[-1] == pytest.approx(norm)
    assert simulated.get_xdata()[-1] == pytest.approx(kappa * (run.times[-1] - T))
    assert predicted.get_ydata()[-1] == pytest.approx(norm, rel=1e-2)
    loss = predictions([(run, prediction)], labels=["start"]).lines[0].get_ydata()
    assert loss[-1] == pytest.approx(float(NET.loss(run.final, task)))
    marked = departure(run, prediction, T + 1 / kappa)
    (line,) = [line for line in marked.lines if line.get_gid() == "departure"]
    assert line.get_xdata()[0] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="quantity must be one of loss, W_Q"):
        predictions([(run, prediction)], "W_X")
