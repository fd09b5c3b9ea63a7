"""Derivatives of states, ends and event times against closed forms and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.integrate import Event, integrate


def square(t, y, args):
    return y**2


LEVEL = {"ten": Event(lambda t, y, args: y - 10.0, terminal=True)}


def time_of_ten(y0):
    return integrate(square, y0, 2.0, events=LEVEL, solver="tsit5", rtol=1e-11).event_times["ten"]


def test_the_time_at_which_a_square_reaches_ten():
    """t = 1/y₀ − 1/10, forward; backward below."""
    assert jax.jacfwd(time_of_ten)(0.8) == pytest.approx(-1.5625, rel=1e-9)


def test_second_derivatives():
    assert jax.grad(jax.grad(time_of_ten))(0.8) == pytest.approx(2 / 0.8**3, rel=1e-8)


def test_it_is_jitted_and_mapped():
    starts = jnp.asarray([0.5, 0.8, 1.0])
    slopes = jax.jit(jax.vmap(jax.grad(time_of_ten)))(starts)
    np.testing.assert_allclose(slopes, -1 / starts**2, rtol=1e-9)


def decay(t, y, args):
    return {"y": -args["rate"] * y["y"]}


def decayed(rate, level, start, t0, t1):
    """States and times of y = start·exp(−rate (t − t0)): a row at 1, the end, and a crossing."""
    events = {"level": Event(lambda t, y, args: y["y"] - level, "down")}
    run = integrate(
        decay, {"y": start}, t1, t0=t0, times=jnp.asarray([1.0]), args={"rate": rate},
        events=events, solver="tsit5", rtol=1e-11,
    )  # fmt: skip
    return run.states["y"], run.times, run.event_times["level"]


def test_all_inputs_of_an_exponential_decay():
    """ln y = ln start − rate (t − t0); crossing at t0 + ln(start/level)/rate. The level is closed
    over by the condition."""
    rate, level, start, t0, t1 = inputs = (0.7, 0.4, 2.0, 0.1, 3.0)
    states, times, crossing = jax.jacrev(decayed, argnums=(0, 1, 2, 3, 4))(*inputs)[:3]
    y = [start * np.exp(-rate * (t - t0)) for t in (1.0, t1)]
    log = np.log(start / level)
    expected = {
        "rate": ([-(1 - t0) * y[0], -(t1 - t0) * y[1]], [0, 0], -log / rate**2),
        "level": ([0, 0], [0, 0], -1 / (rate * level)),
        "start": ([y[0] / start, y[1] / start], [0, 0], 1 / (rate * start)),
        "t0": ([rate * y[0], rate * y[1]], [0, 0], 1.0),
        "t1": ([0, -rate * y[1]], [0, 1], 0.0),
    }
    for i, (of_states, of_times, of_crossing) in enumerate(expected.values()):
        np.testing.assert_allclose(states[i], of_states, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(times[i], of_times, atol=1e-9)
        np.testing.assert_allclose(crossing[i], of_crossing, rtol=1e-8, atol=1e-9)


def test_a_closed_over_rate_and_a_condition_on_the_rate_against_finite_differences():
    """A pendulum of unknown stiffness, the second time at which its speed turns."""

    def turn(stiffness):
        def pendulum(t, y, args):
            return jnp.stack([y[1], -stiffness * jnp.sin(y[0])])

        event = Event(lambda t, y, args, rate: rate[0], "both", with_rate=True)
        run = integrate(pendulum, jnp.asarray([1.0, 0.3]), 9.0, events={"turn": event}, rtol=1e-12)
        return run.crossings["turn"][1]

    step = 1e-5
    turn = jax.jit(turn)
    difference = (turn(1.3 + step) - turn(1.3 - step)) / (2 * step)
    np.testing.assert_allclose(jax.jit(jax.grad(turn))(1.3), difference, rtol=1e-7)


def test_what_has_no_derivative_says_so():
    """An event at a fraction of a peak: NaN, and its neighbour's derivative is whole; an event
    that does not happen stands still."""

    def times(rate):
        events = {
            "faded": Event(lambda t, y, args: y, decline=0.5),
            "half": Event(lambda t, y, args: y - 0.5, "down"),
            "never": Event(lambda t, y, args: y - 5.0),
        }
        run = integrate(
            lambda t, y, args: -args * y, 1.0, 3.0, args=rate, events=events, solver="tsit5"
        )
        return jnp.stack([run.event_times[name] for name in ("faded", "half", "never")])

    slope = jax.jacfwd(times)(0.9)
    assert np.isnan(slope[0])
    assert slope[1] == pytest.approx(-np.log(2) / 0.9**2, rel=1e-6)
    assert slope[2] == 0
