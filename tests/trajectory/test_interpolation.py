"""States of a run between its rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BPoly, KroghInterpolator
from sine_runs import sine_run

from flowsim.outcome import Outcome
from flowsim.trajectory import Trajectory


def test_evaluate_is_exact_at_saved_times():
    run = sine_run(np.sort(np.random.default_rng(0).uniform(0, 9, 40)))
    found = run.evaluate(run.times)
    for name in run.states:
        assert np.array_equal(found[name], run.states[name])


@pytest.mark.parametrize(("with_rates", "order"), [(True, 8), (False, 4)])
def test_interpolation_order(with_rates, order):
    """The error falls like the spacing to the power of the degree plus one."""
    errors = []
    query = np.linspace(0, 6, 301)
    for rows in (13, 25):
        kwargs = {} if with_rates else {"rates": None}
        found = sine_run(np.linspace(0, 6, rows), **kwargs).evaluate(query)
        errors.append(np.max(np.abs(found["a"] - np.sin(query))))
    assert errors[0] > 1e-11
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.7)


def test_agrees_with_krogh_interpolation():
    """In the middle interval of four points the answer is scipy's osculating polynomial."""
    times = np.array([0.0, 0.9, 1.7, 3.0])
    run = sine_run(times)
    oracle = KroghInterpolator(
        np.repeat(times, 2), np.ravel([np.sin(times), np.cos(times)], order="F")
    )
    query = np.linspace(0, 3, 31)
    assert np.allclose(run.evaluate(query)["a"], oracle(query), rtol=0, atol=1e-13)


def test_polynomials_of_degree_seven_are_reproduced():
    poly = np.polynomial.Polynomial([1, -2, 0.5, 3, -1, 0.3, 0.2, -0.1])
    times = np.array([0.0, 0.3, 1.0, 1.4, 2.0])
    run = Trajectory(
        times, poly(times), Outcome.of("reached_end"), rates=np.asarray(poly.deriv()(times))
    )
    query = np.linspace(0, 2, 50)
    assert np.allclose(run.evaluate(query), poly(query), rtol=0, atol=1e-13)


def test_two_points_give_the_cubic_and_one_point_itself():
    run = sine_run([0.0, 1.0])
    oracle = BPoly.from_derivatives([0, 1], [[0, 1], [np.sin(1), np.cos(1)]])
    assert run.evaluate(0.3)["a"] == pytest.approx(float(oracle(0.3)), abs=1e-15)
    assert float(sine_run([2.0]).evaluate(2.0)["a"]) == float(jnp.sin(2.0))


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-12, 1e12), st.floats(-1e3, 1e3), st.floats(0, 1))
def test_unit_and_origin_of_time_do_not_matter(unit, origin, position):
    base = sine_run(np.linspace(0, 3, 9))
    moved = Trajectory(
        unit * (base.times + origin),
        base.states,
        base.outcome,
        rates=jax.tree.map(lambda x: x / unit, base.rates),
    )
    t = moved.times[0] + position * (moved.times[-1] - moved.times[0])
    t = min(max(t, moved.times[0]), moved.times[-1])
    there = min(max(t / unit - origin, 0.0), 3.0)
    assert np.allclose(moved.evaluate(t)["b"], base.evaluate(there)["b"], rtol=0, atol=1e-11)


def test_wildly_uneven_times_do_not_amplify_rounding():
    times = np.array([0, 1e-12, 1e-9, 1, 1 + 1e-11, 2, 2.5, 1e3])
    run = Trajectory(times, np.exp(-times), Outcome.of("reached_end"), rates=-np.exp(-times))
    query = np.linspace(0, 2.5, 400)
    assert np.max(np.abs(run.evaluate(query) - np.exp(-query))) < 5e-3
    assert np.max(run.evaluate(np.geomspace(2.5, 1e3, 100))) < 1


def test_backward_time_and_repeated_times():
    times = np.array([3.0, 2.5, 2.0, 2.0, 1.5, 1.0])
    assert float(sine_run(times).evaluate(1.8)["a"]) == pytest.approx(np.sin(1.8), abs=1e-7)


def test_evaluate_keeps_type_shape_and_precision():
    states = (jnp.ones((3, 2), jnp.float32), [jnp.zeros((3, 4, 5))])
    run = Trajectory(np.arange(3.0), states, Outcome.of("reached_end"))
    found = run.evaluate(np.full((2, 7), 0.5))
    assert jax.tree.structure(found) == jax.tree.structure(states)
    assert found[0].dtype == jnp.float32
    assert found[0].shape == (2, 7, 2)
    assert found[1][0].shape == (2, 7, 4, 5)


@pytest.mark.parametrize("t", [-1e-9, 3.0000001, np.nan, [0.0, 4.0]])
def test_evaluate_refuses_times_outside(t):
    with pytest.raises(ValueError, match=r"^t must"):
        sine_run(np.linspace(0, 3, 5)).evaluate(t)


def test_evaluate_refuses_times_that_turn_back_and_no_times():
    with pytest.raises(ValueError, match="times must run one way"):
        sine_run([0.0, 2.0, 1.0, 3.0]).evaluate(0.5)
    with pytest.raises(ValueError, match="times must hold"):
        sine_run([]).evaluate(0.5)
