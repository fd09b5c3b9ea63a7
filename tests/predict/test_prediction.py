"""`predict` against `simulate`: the error falls at least in proportion to ε."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.blow_up import blow_up_time
from flowsim.flows import Condensed, Full
from flowsim.flows.leading_order import outer
from flowsim.integrate import simulate
from flowsim.network import OneLayerTransformer, Parameters, gaussian_parameters
from flowsim.predict import Caution, predict
from flowsim.tasks import Task, gaussian

NET = OneLayerTransformer("tanh", "logistic")
WIDTHS = {"key_width": 3, "value_width": 5, "hidden_width": 6}
SCALES = (2e-3, 5e-4)


@pytest.fixture(scope="module")
def task() -> Task:
    return gaussian(60, 4, 4)


def start(scale: float) -> Parameters:
    return gaussian_parameters(jax.random.key(2), 4, scale=scale, **WIDTHS)


@pytest.fixture(scope="module")
def pairs(task):
    """(prediction, simulation to the same end) at each scale."""
    found = []
    for scale in SCALES:
        prediction = predict(NET, task, start(scale))
        end = float(prediction.trajectory.times[-1])
        found.append((prediction, simulate(NET, task, start(scale), t1=end)))
    return found


def relative(a, b) -> float:
    return float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))


def slope(errors) -> float:
    return float(np.log(errors[0] / errors[1]) / np.log(SCALES[0] / SCALES[1]))


@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V", "W_1", "W_2"])
@pytest.mark.parametrize("units", [-1.0, 0.0, 1.0])
def test_weights_at_fixed_times_from_blow_up(pairs, task, name, units):
    errors = []
    for prediction, run in pairs:
        t = float(prediction.blow_up.time) + units / float(NET.kappa(task))
        predicted, simulated = prediction.trajectory.evaluate(t), run.evaluate(t)
        errors.append(relative(getattr(predicted, name), getattr(simulated, name)))
    assert errors[1] < 1e-3
    assert slope(errors) > 0.85


def test_weights_between_the_rows_on_either_side_of_the_switch(pairs):
    for prediction, run in pairs:
        switch, rows = prediction.match.switch_time, np.asarray(prediction.trajectory.times)
        behind = rows[rows > switch]
        assert behind[0] - switch >= (behind[1] - behind[0]) / 2
        times = np.linspace(switch, behind[1], 9)
        predicted, simulated = prediction.trajectory.evaluate(times), run.evaluate(times)
        for got, want in zip(predicted.W_V, simulated.W_V, strict=True):
            assert relative(got, want) < 0.01


@pytest.mark.parametrize("event", ["onset", "onset_norm"])
def test_onsets(pairs, event):
    errors = []
    for prediction, run in pairs:
        predicted = getattr(prediction, event).time
        assert predicted == prediction.trajectory.event_times[event]
        wait = abs(predicted - float(prediction.blow_up.time))
        errors.append(abs(predicted - run.event_times[event]) / wait)
    assert errors[1] < 0.02
    assert slope(errors) > 0.8


def test_early_weights_are_those_of_the_leading_order_flow(pairs):
    for prediction, run in pairs:
        t = 0.3 * float(prediction.blow_up.time)
        predicted, simulated = prediction.trajectory.evaluate(t), run.evaluate(t)
        assert relative(predicted.W_1, simulated.W_1) < 1e-4


def test_the_blow_up_is_the_unit_rate_one_over_kappa(pairs, task):
    for (prediction, _), scale in zip(pairs, SCALES, strict=True):
        unit = blow_up_time(*outer(start(scale), task.direction))
        kappa = float(NET.kappa(task))
        for name in ("time", "lower", "upper"):
            expected = float(getattr(unit, name)) / kappa
            assert float(getattr(prediction.blow_up, name)) == pytest.approx(expected, rel=1e-14)


def test_rates_of_the_composite_are_those_of_the_full_model(pairs, task):
    """After the match; the remainders move to first order only."""
    prediction = pairs[1][0]
    run, full = prediction.trajectory, Full(NET, task)
    rows = jnp.array([-20, -1])
    states, rates = jax.tree.map(lambda x: x[rows], (run.states, run.rates))
    expected = jax.vmap(lambda theta: full.rate(0.0, theta))(states)
    for name in ("W_Q", "W_V", "W_1", "W_2"):
        for got, want in zip(getattr(rates, name), getattr(expected, name), strict=True):
            assert relative(got, want) < 1e-2, name


def test_times_that_are_asked_for_are_the_rows(pairs, task):
    whole = pairs[0][0]
    T = float(whole.blow_up.time)
    times = np.array([0.0, 0.4 * T, T, float(whole.trajectory.times[-1])])
    few = predict(NET, task, start(SCALES[0]), times=times)
    np.testing.assert_array_equal(few.trajectory.times, times)
    expected = whole.trajectory.evaluate(times)
    for got, want in zip(
        jax.tree.leaves(few.trajectory.states), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * float(jnp.abs(want).max()))
    assert few.onset.time == pytest.approx(whole.onset.time, rel=1e-9)


def test_a_prediction_never_evaluates_the_full_model(task, monkeypatch):
    def refuse(*_):
        raise AssertionError("the full model was evaluated")

    monkeypatch.setattr(Full, "rate", refuse)
    monkeypatch.setattr(OneLayerTransformer, "__call__", refuse)
    assert predict(NET, task, start(1e-3)).onset.time is not None


def test_constant_tokens_have_no_stage_2():
    """All tokens of a sample equal: C_i = 0, so F = 0 and attention never moves."""
    rng = np.random.default_rng(1)
    tokens = rng.normal(size=(60, 1, 4))
    labels = np.where(tokens[:, 0, 0] + rng.normal(size=60) > 0, 1.0, -1.0)
    still = Task(np.repeat(tokens, 4, axis=1), labels, name="gaussian")
    prediction = predict(NET, still, start(1e-3))
    assert prediction.plateau.exists
    assert (prediction.growth_rate, prediction.collapse_rate) == (0.0, 0.0)
    assert prediction.onset.time is None
    assert prediction.onset_norm.time is None
    assert prediction.onset_asymptotic is None
    assert "onset" not in prediction.trajectory.event_times
    assert list(prediction.cautions) == ["no_growth", "no_onset"]


def test_separable_means_have_no_plateau_and_say_so(task):
    separable = Task(task.X + 5 * task.y[:, None, None] * task.direction, task.y, name="gaussian")
    with pytest.warns(Caution, match="separate the labels: stage 1 does not end on a plateau"):
        prediction = predict(NET, separable, start(1e-3))
    assert "no_plateau" in prediction.cautions
    assert not prediction.plateau.exists
    assert prediction.growth_rate is None
    assert prediction.onset_asymptotic is None


def test_no_blow_up_means_stage_1_alone(task):
    zero = jax.tree.map(jnp.zeros_like, start(1e-3))
    prediction = predict(NET, task, zero)
    assert prediction.blow_up.verdict == "never"
    assert list(prediction.cautions) == ["no_blow_up"]
    assert (prediction.match, prediction.onset.time, prediction.trusted_until) == (None, None, 0.0)
    assert float(jnp.max(jnp.abs(prediction.trajectory.final.W_2))) == 0


def rotated_task() -> Task:
    """Samples with all their quarter turns in a plane: F commutes with the turn, so that its
    singular values in the plane are equal."""
    rng = np.random.default_rng(5)
    label, across = rng.normal(size=(15, 4, 1)), 0.3 * rng.normal(size=(15, 4, 1))
    z = 4 * rng.normal(size=(15, 4, 2))
    chosen = np.argmax(np.einsum("nd,nsd->ns", z[:, -1], z), axis=1)
    score = label[np.arange(15), chosen, 0] + label.mean(axis=(1, 2))
    y = np.where(score + 0.5 * rng.normal(size=15) > 0, 1.0, -1.0)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    turned = [z @ np.linalg.matrix_power(turn, k) for k in range(4)]
    tokens = [np.concatenate([label, turned_z, across], axis=2) for turned_z in turned]
    return Task(np.concatenate(tokens), np.tile(y, 4), name="gaussian")


def test_tied_growth_rates_collapse_to_their_multiplicity():
    with pytest.warns(Caution, match="collapse to rank 2"):
        prediction = predict(NET, rotated_task(), start(1e-3))
    assert (prediction.growth.multiplicity, list(prediction.cautions)) == (2, ["tied"])
    assert prediction.collapse_rate < 1e-9 * prediction.growth_rate
    sizes = np.linalg.svd(prediction.trajectory.final.W_Q, compute_uv=False)
    assert sizes[1] > 0.05 * sizes[0]
    assert sizes[2] < 0.2 * sizes[1]


def test_the_small_parameter_is_in_proportion_to_the_scale_and_warns_when_large(pairs, task):
    first, second = (prediction for prediction, _ in pairs)
    ratio = first.match.small / second.match.small
    assert ratio == pytest.approx(SCALES[0] / SCALES[1], rel=1e-3)
    assert first.cautions == second.cautions == {}
    with pytest.warns(Caution, match="the start is large for the theory"):
        assert "large_start" in predict(NET, task, start(0.3)).cautions


@pytest.fixture(scope="module")
def mirrored(task):
    """A prediction for −tanh, and how often the rate of the condensed flow is traced for the next
    start of the same shape."""
    net, traces, rate = OneLayerTransformer(lambda z: -jnp.tanh(z), "logistic"), [], Condensed.rate
    theta0 = eqx.tree_at(lambda w: w.W_V, start(5e-4), -start(5e-4).W_V)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Condensed, "rate", lambda *a: traces.append(1) or rate(*a))
        prediction = predict(net, task, theta0)
        before = len(traces)
        predict(net, task, start(9e-4))
    return prediction, (before, len(traces) - before)


def test_an_activation_of_negative_slope_condenses_against_v(mirrored, pairs):
    """σ → −σ with y f unchanged in law: v turns round, T is that of −v."""
    minus, plus = mirrored[0], pairs[1][0]
    assert float(minus.blow_up.time) == pytest.approx(float(plus.blow_up.time), rel=1e-12)
    assert minus.onset.time == pytest.approx(plus.onset.time, rel=1e-6)
    W_V = plus.trajectory.final.W_V
    assert relative(-minus.trajectory.final.W_V, W_V) < 1e-5


def test_a_new_start_of_the_same_shape_compiles_nothing(mirrored):
    first, second = mirrored[1]
    assert first > 1
    assert second <= 1  # the check of shapes alone


def test_refusals(task):
    with pytest.raises(TypeError, match="net"):
        predict("tanh", task, start(1e-3))
    with pytest.raises(ValueError, match="shapes must chain: axis 0 of W_Q has length 5"):
        predict(NET, task, gaussian_parameters(jax.random.key(0), 5, scale=1e-3))
    with pytest.raises(ValueError, match="times must increase strictly from 0 or later"):
        predict(NET, task, start(1e-3), times=[1.0, 0.5])
    with pytest.raises(TypeError, match="predict must be called from Python"):
        jax.jit(lambda theta: predict(NET, task, theta).blow_up.time)(start(1e-3))


def test_double_precision_is_required(task):
    with jax.enable_x64(False), pytest.raises(RuntimeError, match="predict needs double precision"):
        predict(NET, task, start(1e-3))
