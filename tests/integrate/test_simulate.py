"""`simulate` on a small planted task: events against their definitions, invariants, refusals."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flowsim as fs
from flowsim.observables.conserved import conserved, conserved_drift
from flowsim.observables.rates import group_rates, relative_rates

SCALE = 3e-3


@pytest.fixture(scope="module")
def task():
    return fs.tasks.gaussian(samples=60, length=5, width=6)


@pytest.fixture(scope="module")
def net():
    return fs.OneLayerTransformer()


@pytest.fixture(scope="module")
def theta0(task):
    return fs.gaussian_parameters(jax.random.key(0), task.width, scale=SCALE)


@pytest.fixture(scope="module")
def run(net, task, theta0):
    return fs.simulate(net, task, theta0)


def test_both_stages_happen_in_order(run):
    assert run.outcome == "reached_end"
    assert run.trusted
    assert {"escape", "onset", "onset_norm"} <= set(run.event_times)
    assert list(run.event_times.values()) == sorted(run.event_times.values())


def test_escape_is_read_off_the_second_layer(run, net, task, theta0):
    first = run.crossings["escape"][0]
    level = float(jnp.linalg.norm(run.evaluate(first).W_2))
    assert level == pytest.approx(float(theta0.scale) ** 0.5, rel=1e-6)
    expected = first + 1 / (float(net.kappa(task)) * level)
    assert run.event_times["escape"] == pytest.approx(expected, rel=1e-6)


def test_escape_agrees_with_the_predicted_blow_up(run, net, task, theta0):
    outer = fs.flows.leading_order.outer(theta0, net.direction(task))
    predicted = float(fs.blow_up_time(*outer).time) / float(net.kappa(task))
    assert run.event_times["escape"] == pytest.approx(predicted, rel=0.02)


def test_onset_is_where_the_rates_cross(run, net, task):
    theta = run.evaluate(run.event_times["onset"])
    rate = fs.flows.Full(net, task).rate(0.0, theta)
    attention, outer = group_rates(relative_rates(theta, rate))
    assert float(attention) == pytest.approx(float(outer), rel=1e-5)


def test_the_run_ends_after_stage_2(run, net, task):
    escape, onset = run.event_times["escape"], run.event_times["onset"]
    unit = 1 / float(net.kappa(task))
    expected = min(10 * escape, onset + max(onset - escape, 5 * unit))
    assert float(run.times[-1]) == pytest.approx(expected, rel=1e-12)


def test_full_model_conserves_its_two_matrices(run, theta0):
    values, keys = conserved(theta0)
    values1, keys1 = conserved(run.final)
    size = float(jnp.sum(run.final.W_V**2))
    np.testing.assert_allclose(values1, values, atol=1e-8 * size)
    np.testing.assert_allclose(keys1, keys, atol=1e-8 * size)
    assert run.stats["conserved_drift"] >= float(conserved_drift(run.final, theta0))


def test_loss_falls_at_the_rate_of_the_squared_gradient(run, net, task):
    # dL/dt = −‖∇L‖² by central differences of the loss along the run.
    t = np.linspace(0.3, 0.9, 5) * float(run.times[-1])
    h = 1e-4 * float(run.times[-1])
    for time in t:
        before, after = (net.loss(run.evaluate(time + s * h), task) for s in (-1, 1))
        rate = fs.flows.Full(net, task).rate(0.0, run.evaluate(time))
        square = sum(float(jnp.sum(x**2)) for x in jax.tree.leaves(rate))
        assert float(after - before) / (2 * h) == pytest.approx(-square, rel=1e-2)


def test_scipy_agrees_at_the_escape_level(run, net, task, theta0):
    from jax.flatten_util import ravel_pytree
    from scipy.integrate import solve_ivp

    y0, unravel = ravel_pytree(theta0)
    flow = fs.flows.Full(net, task)
    rate = jax.jit(lambda y: ravel_pytree(flow.rate(0.0, unravel(y)))[0])
    t1 = float(run.crossings["escape"][0])
    other = solve_ivp(lambda t, y: rate(y), (0, t1), y0, method="DOP853", rtol=1e-11, atol=1e-14)
    mine = ravel_pytree(run.evaluate(t1))[0]
    np.testing.assert_allclose(mine, other.y[:, -1], atol=1e-6 * float(jnp.max(jnp.abs(mine))))


def test_permuting_samples_changes_nothing(run, net, task, theta0):
    order = np.random.default_rng(0).permutation(task.size)
    shuffled = fs.Task(task.X[order], task.y[order], name=task.name)
    again = fs.simulate(net, shuffled, theta0)
    for name, time in run.event_times.items():
        assert again.event_times[name] == pytest.approx(time, rel=1e-7)


def test_zero_weights_stand_still(net, task, theta0):
    still = jax.tree.map(jnp.zeros_like, theta0)
    run = fs.simulate(net, task, still, t1=1.0)
    assert run.outcome == "steady_state"
    assert run.event_times == {}


def test_widths_must_agree(net, task, theta0):
    with pytest.raises(ValueError, match="shapes must chain"):
        fs.simulate(net, fs.tasks.gaussian(samples=20, length=4, width=5), theta0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t1": -1.0}, "t1 must be positive"),
        ({"rtol": 2.0}, "rtol must lie in"),
        ({"theta0": 3}, "theta0"),
        ({"net": "tanh"}, "net"),
    ],
)
def test_bad_input_is_named(change, message, net, task, theta0):
    given = {"net": net, "task": task, "theta0": theta0, **change}
    extra = {key: given[key] for key in change if key in ("t1", "rtol")}
    with pytest.raises((ValueError, TypeError), match=message):
        fs.simulate(given["net"], given["task"], given["theta0"], **extra)


def test_the_fall_of_the_loss_is_the_integrated_power(run, net, task, theta0):
    """The stored balance, and its two sides at saved times by the trapezoidal rule."""
    assert run.stats["energy_drift"] < 1e-6
    end = 0.9 * run.event_times["escape"]
    saved = fs.simulate(net, task, theta0, t1=end, times=np.linspace(0.0, end, 2001))
    rates = jax.vmap(lambda theta: fs.flows.Full(net, task).rate(0.0, theta))(saved.states)
    power = sum(jnp.sum(x**2, axis=range(1, x.ndim)) for x in jax.tree.leaves(rates))
    fall = float(net.loss(theta0, task) - net.loss(saved.final, task))
    assert float(jnp.trapezoid(power, saved.times)) == pytest.approx(fall, rel=1e-4)


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_a_wrong_gradient_is_not_trusted(net, task, theta0, monkeypatch, factor):
    """A gradient that is too long by a thousandth keeps every conserved matrix; the energy balance
    tells."""

    class Wrong(fs.flows.Full):
        def rate(self, t, theta, args=None):
            return jax.tree.map(lambda x: factor * x, super().rate(t, theta, args))

    monkeypatch.setattr(sys.modules["flowsim.integrate.simulate"], "Full", Wrong)
    run = fs.simulate(net, task, theta0, t1=50.0)
    assert run.stats["conserved_drift"] < 1e-7
    assert run.stats["energy_drift"] == pytest.approx(abs(1 - 1 / factor), rel=1e-3, abs=1e-6)
    assert run.trusted == (factor == 1)


def test_standard_events_keep_their_names(net, task, theta0):
    late = fs.Event(lambda t, theta, args: t - 5.0)
    with pytest.raises(ValueError, match=r"events must not use the names escape, .*; got 'onset'"):
        fs.simulate(net, task, theta0, events={"onset": late})


def test_times_beyond_the_end_are_refused(net, task, theta0):
    with pytest.raises(ValueError, match=r"times must lie in \[0, 1\]"):
        fs.simulate(net, task, theta0, t1=1.0, times=[0.5, 2.0])
