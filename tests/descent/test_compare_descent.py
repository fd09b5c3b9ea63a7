"""Comparisons of a descent with the flow: distances by hand, lags by the law and by exact T*."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flowsim as fs
from flowsim.compare.descent import compare_descent as compare
from flowsim.compare.escape import reaching_times
from flowsim.compare.lag import lags_of_stage_1
from flowsim.flows import LeadingOrder
from flowsim.flows.leading_order import outer


def radial(t, r, kappa):
    return kappa * r**2


def lag_law(eta, kappa, r0, R):
    """η ln(R/r₀) − ½η²κ(R − r₀)  (theory.md, section 9)."""
    return eta * np.log(R / r0) - 0.5 * eta**2 * kappa * (R - r0)


def late(descent, R):
    """The time at which the descent reaches R, beyond the exact 1/(κr₀) − 1/(κR), κ = 1."""
    sizes = np.asarray(descent.states)
    at = reaching_times(np.asarray(descent.times), sizes, np.array([R]))[0]
    return at - (1 / sizes[0] - 1 / R)


@pytest.mark.parametrize(("eta", "R"), [(1e-3, 5.0), (1e-3, 40.0), (1e-4, 10.0)])
def test_lag_law_against_the_exact_blow_up_time(eta, R):
    steps = round(2 / eta)
    run = fs.descend(radial, 0.5, learning_rate=eta, steps=steps, args=1.0)
    assert late(run, R) == pytest.approx(lag_law(eta, 1.0, 0.5, R), rel=0.01)
    assert np.all(np.isfinite(run.states))


def test_measured_lag_of_the_theory_page():
    """2.99526e-4 at η = 1e-4, κr₀ = ½, R = 20 r₀."""
    run = fs.descend(
        radial, 0.5, learning_rate=1e-4, steps=19_100, args=1.0, save_steps=range(18_950, 19_100)
    )  # fmt: skip
    sizes = np.asarray(run.states)
    at = reaching_times(np.asarray(run.times), sizes, np.array([10.0]))[0]
    assert at - (2 - 0.1) == pytest.approx(2.99526e-4, rel=1e-4)


@pytest.fixture(scope="module")
def stage_1(net, task, theta0):
    """Flow, κ and exact T* of the leading-order flow from theta0."""
    kappa = float(net.kappa(task))
    T = float(fs.blow_up_time(*outer(theta0, net.direction(task))).time) / kappa
    return LeadingOrder(task, kappa), kappa, T


@eqx.filter_jit
def momentum_sizes(flow, y, h, beta, steps):
    """‖W_2‖ along m ← β m + f, y ← y + h (1−β) m."""

    def step(carry, _):
        y, m = carry
        m = jax.tree.map(lambda m, f: beta * m + f, m, flow.rate(0.0, y))
        following = jax.tree.map(lambda y, m: y + h * (1 - beta) * m, y, m)
        return (following, m), jnp.linalg.norm(y.W_2)

    return jax.lax.scan(step, (y, jax.tree.map(jnp.zeros_like, y)), length=steps)[1]


@pytest.mark.parametrize("beta", [0.0, 0.75])
def test_lag_of_a_gaussian_start_against_the_exact_blow_up_time(net, task, theta0, stage_1, beta):
    """A descent of the leading-order flow reaches large ‖W_2‖ at T* − 1/(κ‖W_2‖) plus the law."""
    flow, kappa, T = stage_1
    h, R = T / 80_000, 60.0
    sizes = np.asarray(momentum_sizes(flow, theta0, jnp.asarray(h), jnp.asarray(beta), 80_000))
    at = reaching_times(h * np.arange(sizes.size), sizes, np.array([R]))[0]
    law = h * lags_of_stage_1(net, task, theta0, np.array([1.0, R]), 3 * T, beta)[-1]
    assert at - (T - 1 / (kappa * R)) == pytest.approx(law, rel=0.01)


@pytest.fixture(scope="module")
def run(net, task, theta0):
    return fs.simulate(net, task, theta0, t1=20.0, rtol=1e-11)


@pytest.fixture(scope="module")
def found(net, task, theta0, run):
    return compare(run, fs.train(net, task, theta0, learning_rate=0.02, steps=900))


def test_distances_by_hand(net, task, theta0, run, found):
    eta = 0.02
    theta = theta0
    flow = fs.flows.Full(net, task)
    rate = jax.jit(lambda theta: flow.rate(0.0, theta))
    for _ in range(100):
        theta = jax.tree.map(lambda x, r: x + eta * r, theta, rate(theta))
    exact = fs.integrate(flow, theta0, 2.0, rtol=1e-12).final
    flat = lambda tree: np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)])  # noqa: E731
    distance = np.linalg.norm(flat(theta) - flat(exact)) / np.linalg.norm(flat(exact))
    assert found.times[100] == pytest.approx(2.0)
    assert found.parameter_distance[100] == pytest.approx(distance, rel=1e-5)
    gap = float(net.loss(theta, task) - net.loss(exact, task))
    assert found.loss_gap[100] == pytest.approx(gap, rel=1e-5)
    outputs = np.asarray(net(theta, task.X)), np.asarray(net(exact, task.X))
    distance = np.linalg.norm(outputs[0] - outputs[1]) / np.linalg.norm(outputs[1])
    assert found.function_distance[100] == pytest.approx(distance, rel=1e-5)
    assert found.parameter_distance[0] == 0


def test_delay_and_lag_are_predicted(found):
    assert found.lag_at_blow_up > 0
    assert found.predicted_lag == pytest.approx(found.lag_at_blow_up, rel=0.5)


def test_results_are_ready_for_json_and_readable(found):
    again = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert again["delay"] == found.delay
    assert len(again["times"]) == found.times.size
    assert repr(found).startswith("DescentComparison(901 times, largest parameter distance")
    assert "lag at blow-up" in repr(found)


def test_a_radial_field_has_the_lag_law_predicted():
    run = fs.integrate(radial, 0.5, 1.9, args=1.0, rtol=1e-12)
    found = compare(run, fs.descend(radial, 0.5, learning_rate=1e-3, steps=1900, args=1.0))
    assert found.predicted_lag == pytest.approx(1e-3 * np.log(found.level / 0.5), rel=1e-3)
    assert found.lag_at_blow_up == pytest.approx(found.predicted_lag, rel=0.01)
    assert found.delay == pytest.approx(found.predicted_delay, rel=0.01)
    assert found.loss_gap is None


def test_a_decaying_field_has_no_escape():
    field = lambda t, y, args: -y  # noqa: E731
    run = fs.integrate(field, 1.0, 2.0)
    found = compare(run, fs.descend(field, 1.0, learning_rate=0.01, steps=200))
    assert found.level is None
    assert found.delay is None
    exact = np.exp(-found.times)
    expected = np.abs(0.99 ** np.arange(201) - exact) / exact
    np.testing.assert_allclose(found.parameter_distance, expected, rtol=1e-4, atol=1e-9)


def test_an_optimiser_without_a_clock_is_refused(net, task, theta0, run):
    adam = fs.train(net, task, theta0, optimizer="adamw", learning_rate=0.01, steps=5)
    with pytest.raises(ValueError, match="descent must be on the training clock"):
        compare(run, adam)


def test_other_shapes_are_refused(run):
    other = fs.descend(radial, 0.5, learning_rate=0.1, steps=2, args=1.0)
    with pytest.raises(ValueError, match="descent must have states shaped like the run's"):
        compare(run, other)


def test_a_descent_that_diverges_at_once_has_no_delay(net, task, theta0, run):
    found = compare(run, fs.train(net, task, theta0, learning_rate=1e6, steps=5))
    assert found.delay is None
    assert found.lag_at_blow_up is None
