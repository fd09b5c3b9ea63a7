"""`integrate` against closed forms: accuracy, saving, outcomes, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.integrate import integrate
from flowsim.integrate.solvers import SOLVERS


def rotation(t, y, args):
    """ẏ = (y₂, −y₁)."""
    return jnp.stack([y[1], -y[0]])


def square(t, y, args):
    """ẏ = y²."""
    return y**2


@pytest.fixture(scope="module")
def rotated():
    return integrate(rotation, [1.0, 0.0], 10.0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_error_follows_the_tolerance(solver):
    # Halving log10(rtol) twice must gain digits; the global error stays within 100 tolerances.
    times = [0.0, 1.0, 2.5, 5.0]
    exact = np.stack([np.cos(times), -np.sin(times)], axis=1)
    for rtol in (1e-5, 1e-8):
        run = integrate(rotation, [1.0, 0.0], 5.0, times=times, solver=solver, rtol=rtol)
        assert run.outcome == "reached_end"
        np.testing.assert_allclose(run.states, exact, atol=100 * rtol)


def test_every_accepted_step_is_saved_with_its_rate(rotated):
    assert len(rotated.times) == rotated.stats["accepted"] + 1
    assert rotated.times[0] == 0
    assert rotated.times[-1] == 10
    np.testing.assert_allclose(rotated.states[:, 0], np.cos(rotated.times), atol=1e-7)
    np.testing.assert_array_equal(rotated.rates[:, 0], rotated.states[:, 1])


def test_saving_does_not_change_the_steps(rotated):
    sparse = integrate(rotation, [1.0, 0.0], 10.0, times=[3.3, 10.0])
    assert sparse.stats["accepted"] == rotated.stats["accepted"]
    np.testing.assert_array_equal(sparse.final, rotated.final)


def test_evaluate_between_steps_is_as_accurate_as_the_steps(rotated):
    t = np.linspace(0, 10, 101)
    np.testing.assert_allclose(rotated.evaluate(t)[:, 0], np.cos(t), atol=1e-5)


def test_scipy_agrees_on_a_forced_pendulum():
    from scipy.integrate import solve_ivp

    def pendulum(t, y, args):
        return jnp.stack([y[1], -args * jnp.sin(y[0]) + jnp.cos(t)])

    run = integrate(pendulum, [0.1, 0.0], 20.0, args=2.0, rtol=1e-11)
    other = solve_ivp(
        lambda t, y: [y[1], -2.0 * np.sin(y[0]) + np.cos(t)],
        (0, 20),
        [0.1, 0.0],
        method="DOP853",
        rtol=1e-12,
        atol=1e-12,
    )
    np.testing.assert_allclose(run.final, other.y[:, -1], atol=1e-8)


def test_the_default_tolerance_has_no_units():
    # atol 1e-6 on y' = y² from 1e-8 is 13 % wrong; here the digits do not depend on the unit.
    for unit in (1e-12, 1e-3, 1e12):
        run = integrate(square, unit, 0.9 / unit)
        assert float(run.final) / unit == pytest.approx(10, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("t0", "unit"), [(0.0, 1e-11), (1e4, 1.0)])
def test_tiny_and_late_times(solver, t0, unit):
    run = integrate(lambda t, y, tau: -y / tau, 1.0, t0 + unit, t0=t0, args=unit, solver=solver)
    assert float(run.final) == pytest.approx(np.exp(-1), rel=1e-6)


@pytest.mark.parametrize(
    ("field", "y0", "t1", "outcome"),
    [
        (square, 1.0, 2.0, "blow_up"),
        (lambda t, y, a: jnp.exp(y), 0.0, 2.0, "blow_up"),
        (lambda t, y, a: y**3, 1e-6, 1e13, "blow_up"),
        (lambda t, y, a: 2 * y, 1e-3, 300.0, "reached_end"),
        (lambda t, y, a: jnp.sqrt(1 - t), 0.0, 2.0, "non_finite"),
        (lambda t, y, a: jnp.where(t < 1, 1.0, jnp.nan) * y, 1.0, 2.0, "non_finite"),
        (lambda t, y, a: -1 / y, 1.0, 2.0, "step_too_small"),
        (lambda t, y, a: jnp.nan * y, 1.0, 2.0, "non_finite"),
        (lambda t, y, a: 0 * y, 0.0, 2.0, "reached_end"),
    ],
)
def test_how_a_solve_ends(field, y0, t1, outcome):
    run = integrate(field, y0, t1)
    assert run.outcome == outcome
    assert run.times[-1] <= t1
    assert np.all(np.isfinite(run.states))


def test_blow_up_is_found_where_it_is():
    assert float(integrate(square, 1.0, 2.0, rtol=1e-10).times[-1]) == pytest.approx(1, rel=1e-9)


def test_a_spent_budget_is_said_not_passed_off():
    run = integrate(rotation, [1.0, 0.0], 1e3, max_steps=20)
    assert run.outcome == "too_many_steps"
    assert run.outcome.failed
    assert run.stats["accepted"] + run.stats["rejected"] == 20


def test_stiff_field_is_left_to_the_implicit_solver():
    def stiff(t, y, args):
        return -1e6 * (y - jnp.cos(t))

    run = integrate(stiff, 1.0, 10.0, solver="kvaerno5", max_steps=2000)
    assert run.outcome == "reached_end"
    assert float(run.final) == pytest.approx(np.cos(10), abs=1e-5)


def test_states_may_be_pytrees():
    y0 = {"a": jnp.ones((2, 3)), "b": (jnp.asarray(2.0),)}
    run = integrate(lambda t, y, a: jax.tree.map(lambda x: -x, y), y0, 1.0)
    np.testing.assert_allclose(run.states["a"][-1], np.exp(-1) * np.ones((2, 3)), rtol=1e-6)
    assert float(run.final["b"][0]) == pytest.approx(2 * np.exp(-1), rel=1e-6)


def test_under_vmap_rows_are_padded_and_outcomes_are_data():
    def solve(y0):
        return integrate(square, y0, 0.5, times=jnp.asarray([0.25, 0.5]))

    runs = jax.vmap(solve)(jnp.asarray([1.0, 1.5, 5.0]))
    assert list(runs.outcome.name) == ["reached_end", "reached_end", "blow_up"]
    np.testing.assert_array_equal(runs.count, [2, 2, 1])
    np.testing.assert_allclose(runs.states[:2, 1], [2.0, 6.0], rtol=1e-6)
    member = runs.member(2).trim()
    assert member.outcome == "blow_up"
    assert float(member.times[-1]) == pytest.approx(0.2, rel=1e-6)


def test_new_tolerances_and_times_do_not_compile_again():
    traces = []

    def field(t, y, args):
        traces.append(1)
        return -args * y

    integrate(field, 1.0, 1.0, args=1.0, times=[0.5])
    before = len(traces)
    for rtol, t1 in ((1e-5, 2.0), (1e-7, 3.0), (1e-10, 4.0)):
        integrate(field, 2.0, t1, args=0.5, times=[0.7], rtol=rtol, max_steps=5000)
    assert len(traces) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t1": 0.0}, "t1 must be finite and larger than t0"),
        ({"t1": np.inf}, "t1 must be finite"),
        ({"t1": "soon"}, "t1 must be a real number"),
        ({"rtol": 0.0}, "rtol must lie in"),
        ({"rtol": 1e-15}, "rtol must lie in"),
        ({"rtol": 0.5}, "rtol must lie in"),
        ({"atol": -1.0}, "atol must not be negative"),
        ({"max_steps": 0}, "max_steps must be an integer >= 1"),
        ({"solver": "dopri9"}, "did you mean 'dopri8'"),
        ({"times": [0.5, 0.2]}, "times must increase strictly"),
        ({"times": [0.5, 2.0]}, "times must lie in"),
        ({"y0": np.nan}, "y0 must be finite"),
        ({"y0": 1j}, "y0 must be real"),
        ({"y0": []}, "y0 must not be empty"),
        ({"events": {"e": 3}}, "must be an Event"),
        ({"flow": lambda t, y, a: jnp.stack([y, y])}, "return the state's structure"),
        ({"flow": lambda t, y, a: jnp.float32(1.0)}, "return the state's structure"),
        ({"flow": lambda t, y, a: y if y > 0 else -y}, "use jnp.where"),
        ({"flow": 3}, "flow must be callable"),
        ({"flow": lambda t, y, a: 1}, "return the state's structure"),
        ({"flow": lambda t, y: y}, "flow must be callable as flow.t, y, args."),
        ({"max_steps": 10**12}, "max_steps must be an integer <= 2147483647"),
        ({"t0": -np.inf}, "t0 must be finite"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"flow": square, "y0": 1.0, "t1": 0.5, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        integrate(given.pop("flow"), given.pop("y0"), given.pop("t1"), **given)
