"""How a solve ends, for every solver: one compiled solve each, the field chosen by a number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.integrate import Event, integrate
from flowsim.integrate.solvers import SOLVERS

FIELDS = {
    "square": lambda t, y: y**2,
    "exponential growth": lambda t, y: 5 * y,
    "singular": lambda t, y: -1 / y,
    "not a number": lambda t, y: jnp.where(t < 0.5, 1.0, jnp.nan) * y,
    "infinite": lambda t, y: jnp.where(t < 0.5, 1.0, jnp.inf) * y,
    "root": lambda t, y: jnp.sqrt(0.5 - t) + 0 * y,
    "stiff": lambda t, y: -1e8 * (y - jnp.cos(t)),
}
ENDS = {
    "square": ("blow_up", 1.0),
    "exponential growth": ("reached_end", 2.0),
    "singular": ("step_too_small", 0.5),
    "not a number": ("non_finite", 0.5),
    "infinite": ("non_finite", 0.5),
    "root": ("non_finite", 0.5),
    "stiff": ("reached_end", 2.0),
}


def chosen_field(t, y, number):
    return jax.lax.switch(number, list(FIELDS.values()), t, y)


def level(height):
    return Event(lambda t, y, args: y - height, "up")


@pytest.fixture(scope="module", params=SOLVERS)
def ended(request):
    """The runs of all fields from y = 1 to t = 2."""
    events = {"a later one": level(1.0105), "first": level(1.0102)}
    return request.param, {
        name: integrate(
            chosen_field,
            1.0,
            2.0,
            args=number,
            events=events,
            solver=request.param,
            rtol=1e-7,
            max_steps=3000,
        )
        for number, name in enumerate(FIELDS)
    }


@pytest.mark.parametrize("name", FIELDS)
def test_how_a_solve_ends(name, ended):
    solver, runs = ended
    run, (outcome, time) = runs[name], ENDS[name]
    if name == "stiff" and solver != "kvaerno5":
        assert run.outcome == "too_many_steps"
        return
    assert run.outcome == outcome
    assert float(run.times[-1]) == pytest.approx(time, rel=1e-6)
    assert np.all(np.isfinite(run.states))


def test_two_events_of_one_step_come_in_order_of_time(ended):
    """y = 1/(1 − t) passes both levels in one step."""
    _, runs = ended
    run = runs["square"]
    exact = {"first": 1 - 1 / 1.0102, "a later one": 1 - 1 / 1.0105}
    assert list(run.event_times) == list(exact)
    assert run.event_times == pytest.approx(exact, rel=1e-6)
    between = (run.times > exact["first"]) & (run.times < exact["a later one"])
    assert not np.any(between)
