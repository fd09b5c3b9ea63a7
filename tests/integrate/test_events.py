"""Events: located to rounding, found inside steps, in order of time, never at the start."""

import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.integrate import Event, integrate
from flowsim.integrate.solvers import SOLVERS


def rotation(t, y, args):
    """ẏ = (y₂, −y₁), so y = (cos t, −sin t)."""
    return jnp.stack([y[1], -y[0]])


def x(t, y, args):
    return y[0]


def near_top(t, y, args):
    return y[0] - 0.9999


EVENTS = {
    "down": Event(x, "down"),
    "up": Event(x, "up"),
    "both": Event(x, "both"),
    "top": Event(near_top, "both"),
    "start": Event(lambda t, y, a: y[1], "both"),
    "clock": Event(lambda t, y, a: t - 7.0),
    "never": Event(lambda t, y, a: y[0] - 1.5),
    "half": Event(lambda t, y, a: 1 + y[0], decline=0.5),
    "rate": Event(lambda t, y, a, rate: rate[1], "up", with_rate=True),
}


@pytest.fixture(scope="module", params=SOLVERS)
def run(request):
    return integrate(rotation, [1.0, 0.0], 20.0, events=EVENTS, solver=request.param, rtol=1e-10)


def test_times_are_right_to_1e_8(run):
    k = np.arange(4)
    exact = {
        "down": np.pi / 2 + 2 * np.pi * k[:3],
        "up": 3 * np.pi / 2 + 2 * np.pi * k[:3],
        "both": np.pi / 2 + np.pi * np.arange(6),
        "start": np.pi * np.arange(1, 7),
        "clock": [7.0],
        "half": [np.pi / 2],
        "rate": np.pi / 2 + 2 * np.pi * k[:3],
    }
    for name, times in exact.items():
        times = np.asarray(times)
        np.testing.assert_allclose(run.crossings[name][: len(times)], times, rtol=1e-8)
        assert run.event_times[name] == run.crossings[name][0]
    assert "never" not in run.event_times


def test_double_crossings_inside_a_step_are_found(run):
    # cos t passes 0.9999 down and up within 0.028; a step of dopri8 is ten times as long.
    a = np.arccos(0.9999)
    exact = [a, 2 * np.pi - a, 2 * np.pi + a, 4 * np.pi - a, 4 * np.pi + a, 6 * np.pi - a]
    np.testing.assert_allclose(run.crossings["top"][:6], exact, rtol=1e-8)


def test_events_come_in_order_of_time(run):
    times = list(run.event_times.values())
    assert times == sorted(times)


def test_an_event_true_at_the_start_does_not_fire_there(run):
    assert run.event_times["start"] > 3


def test_two_terminal_events_of_one_step_stop_at_the_earlier():
    late = Event(lambda t, y, a: y - 2.0, terminal=True)
    early = Event(lambda t, y, a: y - 1.99, terminal=True)
    between = Event(lambda t, y, a: y - 1.995)
    events = {"a late": late, "between": between, "early": early}
    run = integrate(lambda t, y, a: y, 1.0, 5.0, events=events)
    assert run.outcome == "event"
    assert list(run.event_times) == ["early"]
    assert float(run.times[-1]) == run.event_times["early"]
    assert float(run.final) == pytest.approx(1.99, rel=1e-8)
    assert run.event_times["early"] == pytest.approx(np.log(1.99), rel=1e-8)


def test_a_terminal_event_at_the_start_does_not_stop_the_run():
    events = {"begin": Event(lambda t, y, a: y - 1.0, "both", terminal=True)}
    assert integrate(lambda t, y, a: -y, 1.0, 1.0, events=events).outcome == "reached_end"


def test_times_saved_up_to_a_terminal_event():
    events = {"stop": Event(lambda t, y, a: y - 2.0, terminal=True)}
    run = integrate(lambda t, y, a: y, 1.0, 5.0, events=events, times=[0.0, 0.5, 4.0])
    np.testing.assert_allclose(run.times, [0.0, 0.5, np.log(2)], rtol=1e-8)
    np.testing.assert_allclose(run.states, np.exp(run.times), rtol=1e-7)


def test_nan_conditions_neither_fire_nor_hide_a_crossing():
    gap = Event(lambda t, y, a: jnp.where(jnp.abs(t - 1) < 0.3, jnp.nan, t - 1))
    only = Event(lambda t, y, a: jnp.where(t > 1, jnp.nan, -1.0))
    run = integrate(lambda t, y, a: -y, 1.0, 3.0, events={"gap": gap, "only": only})
    assert 0.7 <= run.event_times["gap"] <= 1.31
    assert "only" not in run.event_times


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (lambda t, y, a: y, "must return a real scalar; got .*float64.2."),
        (lambda t, y, a: y[0] < 0.5, "must return a real scalar; got .*bool"),
        (lambda t, y, a: jnp.asarray(1j), "must return a real scalar; got .*complex"),
        (lambda t, y, a: None, "must return a real scalar; got None"),
        (lambda t, y, a: 1.0 if y[0] > 0 else 2.0, "must not branch in Python"),
        (lambda t, y: y[0], "must be callable as .*t, y, args"),
    ],
)
def test_a_condition_that_is_no_real_scalar_is_refused(condition, message):
    with pytest.raises((ValueError, TypeError), match=r"events\['v'\] " + message):
        integrate(rotation, [1.0, 0.0], 1.0, events={"v": Event(condition)})


def test_events_are_a_dict():
    with pytest.raises(TypeError, match="events must be a dict of names and events"):
        integrate(rotation, [1.0, 0.0], 1.0, events=[Event(x)])
    with pytest.raises(TypeError, match="terminal"):
        Event(x, "up", "yes")


def test_an_unknown_direction_is_refused():
    with pytest.raises(ValueError, match="direction must be one of up, down, both"):
        Event(x, "sideways")
