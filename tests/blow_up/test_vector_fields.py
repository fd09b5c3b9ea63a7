"""`solve_to_blow_up` of vectors, against solutions in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.blow_up import solve_to_blow_up

INF = np.inf


def row(*entries):
    return jnp.stack([jnp.asarray(entry, float) for entry in entries])


TURN = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 0]])


def plane(y):
    return y[0] ** 2 + y[1] ** 2


#: Three components, one compilation: (field, start, blow-up time or outcome, exponent, options).
VECTOR = {
    "one of three": (lambda t, y: row(y[0] ** 2, -y[1], jnp.cos(t)), [1, 1, 0], 1.0, 1, {}),
    "beside 1e20": (lambda t, y: row(y[0] ** 2, 0.0, 0.0), [1, 1e20, 0], 1.0, 1, {}),
    "beside a growing 1e10": (lambda t, y: row(y[0] ** 2, y[1], 0), [1, 1e10, 0], 1.0, 1, {}),
    "just before another": (
        lambda t, y: row(y[0] ** 2, y[1] ** 2, 0),
        [1, 0.999999, 0],
        1.0,
        1,
        {},
    ),
    "a logarithm beside 1e10": (lambda t, y: row(jnp.exp(y[0]), 0, 0), [0, 1e10, 0], 1.0, 0, {}),
    "beside a fast decay": (lambda t, y: row(y[0] ** 2, -1e3 * y[1], 0), [1, 1, 0], 1.0, 1, {}),
    "the earlier of two": (lambda t, y: row(y[0] ** 2, y[1] ** 2, 0), [1, 2, 0], 0.5, 1, {}),
    "two powers at once": (lambda t, y: row(y[0] ** 3, y[1] ** 2, 0), [1, 2, 0], 0.5, 1, {}),
    "rotation and growth": (lambda t, y: y * plane(y) + 10 * (TURN @ y), [1, 0, 0], 0.5, 0.5, {}),
    "rotation in log time": (
        lambda t, y: (y + 3 * (TURN @ y)) * jnp.sqrt(plane(y)),
        [1, 0, 0],
        1.0,
        1,
        {},
    ),
    "second order": (lambda t, y: row(y[1], 6 * y[0] ** 2, 0), [1, 2, 0], 1.0, 3, {}),
    "Liouville": (lambda t, y: row(y[1], jnp.exp(y[0]), 0), [0, 2**0.5, 0], 2**0.5, 1, {}),
    "rank one": (
        lambda t, y: row(y[1] * y[2], y[0] * y[2], y[0] * y[1]),
        [1, 2, 3],
        0.50864461857003823021,
        1,
        {},
    ),
    "rank one, negative": (
        lambda t, y: row(y[1] * y[2], y[0] * y[2], y[0] * y[1]),
        [1, 2, -3],
        0.88968396690700673,
        1,
        {},
    ),
    "noise": (lambda t, y: row(y[0] ** 2, y[0] * 1.1 - 1.1 * y[0], 0), [1, 0, 0], 1.0, 1, {}),
    "rank one, degenerate": (
        lambda t, y: row(y[1] * y[2], y[0] * y[2], y[0] * y[1]),
        [1, 1, -1],
        "steady_state",
        None,
        {},
    ),
    "rotation alone": (lambda t, y: TURN @ y, [1, 0, 0], "reached_end", None, {"t1": 30.0}),
    "infinite rotation": (lambda t, y: TURN @ y / (1 - t), [1, 0, 0], "step_too_small", None, {}),
    "fall to the origin": (lambda t, y: -y / plane(y), [1, 1, 0], "step_too_small", None, {}),
    "Lotka and Volterra": (
        lambda t, y: row(y[0] * (1 - y[1]), y[1] * (y[0] - 1), 0),
        [1.5, 1, 0],
        "reached_end",
        None,
        {"t1": 20.0},
    ),
}
VECTOR_FIELDS = [case[0] for case in VECTOR.values()]


def vector_rate(t, y, which):
    return jax.lax.switch(which, VECTOR_FIELDS, t, y)


@pytest.mark.parametrize("name", VECTOR)
def test_vectors(name):
    _, y0, expected, exponent, options = VECTOR[name]
    which = list(VECTOR).index(name)
    found = solve_to_blow_up(vector_rate, np.array(y0, float), args=which, **options)
    if isinstance(expected, str):
        assert found.outcome == expected
        assert found.time == INF
    else:
        assert found.outcome == "blow_up"
        assert abs(found.time - expected) <= min(1e-8 * expected, found.error)
        assert found.exponent == pytest.approx(exponent, rel=2e-3)
