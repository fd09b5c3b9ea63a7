"""`solve_to_blow_up` of scalars, against solutions in closed form and against what is none."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from flowsim.blow_up import solve_to_blow_up

INF = np.inf


def escape_time(rate, start):
    """∫ dy/f(y) from the start to infinity, by mpmath."""
    return float(mpmath.quad(lambda y: 1 / rate(y), [start, start + 1, start + 10, mpmath.inf]))


def root(function, guess):
    """The zero of a function near a guess, by mpmath."""
    return float(mpmath.findroot(function, guess))


def time_beside_one(start):
    """Blow-up time of y' = y² − 1 from a start above 1; the differences are exact."""
    return 0.5 * np.log((start + 1) / (start - 1))


def first_zero_of_airy_solution():
    """y' = t + y², y(0) = 0 is y = −u'/u with u'' = −t u, u'(0) = 0."""
    ai, bi = mpmath.airyai, mpmath.airybi

    def u(t):
        return ai(-t) * bi(0, derivative=1) - bi(-t) * ai(0, derivative=1)

    return float(mpmath.findroot(u, 2))


#: Scalar fields; one compilation serves all.
FIELDS = {
    "y²": lambda t, y: y**2,
    "−y²": lambda t, y: -(y**2),
    "10⁶ y²": lambda t, y: 1e6 * y**2,
    "e^y": lambda t, y: jnp.exp(y),
    "−e^−y": lambda t, y: -jnp.exp(-y),
    "e^y²": lambda t, y: jnp.exp(y**2),
    "cosh y": lambda t, y: jnp.cosh(y),
    "y e^y": lambda t, y: y * jnp.exp(y),
    "y³": lambda t, y: y**3,
    "y³ + y²": lambda t, y: y**3 + y**2,
    "y^1.1": lambda t, y: jnp.abs(y) ** 1.1,
    "y^1.01": lambda t, y: jnp.abs(y) ** 1.01,
    "y^30": lambda t, y: y**30,
    "y² log y": lambda t, y: y**2 * jnp.log(y),
    "1 + y²": lambda t, y: 1 + y**2,
    "10⁶ (1 + y²)": lambda t, y: 1e6 * (1 + y**2),
    "10⁻¹² + y²": lambda t, y: 1e-12 + y**2,
    "y² − 1": lambda t, y: y**2 - 1,
    "y² − 10⁻⁸": lambda t, y: y**2 - 1e-8,
    "y (1 − y)": lambda t, y: y * (1 - y),
    "t² y²": lambda t, y: t**2 * y**2,
    "t + y²": lambda t, y: t + y**2,
    "y² sin t": lambda t, y: y**2 * jnp.sin(t),
    "y² cos² t": lambda t, y: y**2 * jnp.cos(t) ** 2,
    "y/(1 − t)": lambda t, y: y / (1 - t),
    "y/(10001 − t)": lambda t, y: y / (10001 - t),
    "1/(1 − t)": lambda t, y: 1 / (1 - t),
    "y log y": lambda t, y: y * jnp.log(y),
    "y log^1.1 y": lambda t, y: y * jnp.log(y) ** 1.1,
    "y log² y": lambda t, y: y * jnp.log(y) ** 2,
    "y log³ y": lambda t, y: y * jnp.log(y) ** 3,
    "y log y (log log y)²": lambda t, y: y * jnp.log(y) * (1 + jnp.log(jnp.log(y))) ** 2,
    "stiff": lambda t, y: -1e6 * (y - jnp.cos(t)),
    "stiffer": lambda t, y: -1e9 * (y - jnp.cos(t)),
    "2 y": lambda t, y: 2 * y,
    "−y": lambda t, y: -y,
    "y sin t": lambda t, y: y * jnp.sin(t),
    "0": lambda t, y: 0 * y,
    "1": lambda t, y: 1 + 0 * y,
    "y², capped at 10⁶": lambda t, y: y**2 * (1 - y / 1e6),
    "y², capped at 10¹²": lambda t, y: y**2 * (1 - y / 1e12),
    "y², then linear": lambda t, y: y**2 / (1 + 1e-6 * y),
    "y²/(1 + t)²": lambda t, y: y**2 / (1 + t) ** 2,
    "y² e^−t": lambda t, y: y**2 * jnp.exp(-t),
    "−1/y": lambda t, y: -1 / y,
    "−sign y": lambda t, y: -jnp.sign(y),
    "NaN beyond 10": lambda t, y: jnp.where(y < 10, y**2, jnp.nan),
    "NaN after a half": lambda t, y: jnp.where(t < 0.5, y**2, jnp.nan),
    "root of a negative": lambda t, y: y * jnp.sqrt(5 - y) + 1,
}


def scalar_rate(t, y, which):
    return jax.lax.switch(which, list(FIELDS.values()), t, y)


def solve(field, y0, **options):
    return solve_to_blow_up(scalar_rate, y0, args=list(FIELDS).index(field), **options)


#: (field, start, blow-up time, exponent, options).
SCALAR = [
    ("y²", 1.0, 1.0, 1, {}),
    ("y²", 1e-8, 1e8, 1, {}),
    ("y²", 1e15, 1e-15, 1, {}),
    ("y²", 1e-100, 1e100, 1, {}),
    ("y²", 1.0, 1.0, 1, {"t1": 1 + 1e-6}),
    ("−y²", -2.0, 0.5, 1, {}),
    ("y²", 1.0, 10001.0, 1, {"t0": 1e4}),
    ("y²", 1.0, 2.0, 1, {"t0": 1.0}),
    ("10⁶ y²", 1.0, 1e-6, 1, {}),
    ("e^y", 0.0, 1.0, 0, {}),
    ("−e^−y", 0.0, 1.0, 0, {}),
    ("e^y²", 0.0, np.sqrt(np.pi) / 2, 0, {}),
    ("cosh y", 0.0, np.pi / 2, 0, {}),
    ("y e^y", 1.0, float(mpmath.e1(1)), 0, {}),
    ("y³", 1.0, 0.5, 0.5, {}),
    ("y³ + y²", 1.0, 1 - np.log(2), 0.5, {}),
    ("y^1.1", 1.0, 10.0, 10, {}),
    ("y^1.01", 1.0, 100.0, 100, {}),  # to overflow
    ("y^30", 1.0, 1 / 29, 1 / 29, {}),
    # the exponent approaches 1 like 1/log y, 0.953 where T − t = 1e-9
    ("y² log y", 2.0, escape_time(lambda y: y**2 * mpmath.log(y), 2), 0.9534, {}),
    ("1 + y²", 0.0, np.pi / 2, 1, {}),
    ("1 + y²", -10.0, np.pi / 2 + np.arctan(10), 1, {}),
    ("10⁶ (1 + y²)", 0.0, np.pi / 2e6, 1, {}),
    ("10⁻¹² + y²", -1.0, 1e6 * (np.pi / 2 + np.arctan(1e6)), 1, {}),
    ("y (1 − y)", -1.0, np.log(2), 1, {}),
    ("y² − 1", 1 + 1e-6, time_beside_one(1 + 1e-6), 1, {}),
    ("t² y²", 1.0, 3 ** (1 / 3), 1, {}),
    ("t + y²", 0.0, first_zero_of_airy_solution(), 1, {}),
    ("y² sin t", 1.0, np.pi / 2, 1, {}),
    ("y² cos² t", 0.01, root(lambda t: t / 2 + mpmath.sin(2 * t) / 4 - 100, 200), 1, {}),
    ("y/(1 − t)", 1.0, 1.0, 1, {}),
    ("y/(10001 − t)", 1.0, 10001.0, 1, {"t0": 1e4}),
    ("1/(1 − t)", 1.0, 1.0, 0, {}),
]
#: What rounding, or the end of the numbers, leaves of T: (field, start, T, exponent, error/T).
UNCERTAIN = [
    ("y² − 1", 1 + 1e-8, time_beside_one(1 + 1e-8), 1, 1e-7),
    ("y² − 1", 1 + 1e-12, time_beside_one(1 + 1e-12), 1, 1e-3),
    ("y log^1.1 y", np.e, 10.0, INF, 0.05),
    ("y log² y", np.e, 1.0, INF, 1e-4),
    ("y log³ y", np.e, 0.5, INF, 1e-8),
]
#: (field, start, outcome, options).
BOUNDED = [
    ("stiff", 0.0, "too_many_steps", {"t1": 10.0}),
    ("stiffer", 0.0, "too_many_steps", {"t1": 10.0, "max_steps": 1000}),
    ("2 y", 1e-3, "reached_end", {"t1": 300.0}),
    ("2 y", 1e-3, "reached_end", {}),  # to overflow
    ("y log y", np.e, "reached_end", {}),
    ("y log y (log log y)²", np.e, "non_finite", {}),  # T = 1, but log log y is 6.5 at overflow
    ("−y", 1.0, "steady_state", {}),
    ("y sin t", 1.0, "reached_end", {"t1": 30.0}),
    ("y sin t", 1.0, "too_many_steps", {"max_steps": 1000}),
    ("y (1 − y)", 2.0, "steady_state", {}),
    ("y (1 − y)", 0.1, "steady_state", {}),
    ("y² − 1", 1 - 1e-8, "steady_state", {}),
    ("y² − 10⁻⁸", -1.0, "steady_state", {}),
    ("y², capped at 10⁶", 1.0, "steady_state", {}),
    ("y², capped at 10¹²", 1.0, "steady_state", {"t1": 10.0}),
    ("y²/(1 + t)²", 1.0, "step_too_small", {}),  # y = 1 + t: the next above blows up
    ("y² e^−t", 1.0, "step_too_small", {}),  # y = e^t: likewise
    ("0", 1.0, "steady_state", {}),
    ("1", 0.0, "reached_end", {}),
    ("y², then linear", 1.0, "reached_end", {"t1": 1.0001}),
    ("y²", 1.0, "reached_end", {"t1": 1 - 1e-6}),
    ("y² sin t", 0.4, "reached_end", {"t1": 20.0}),
    ("y²", 1.0, "too_many_steps", {"max_steps": 1}),
    ("−1/y", 1.0, "step_too_small", {}),
    ("−sign y", 1.0, "step_too_small", {}),
    ("NaN beyond 10", 1.0, "non_finite", {}),
    ("NaN after a half", 1.0, "non_finite", {}),
    ("root of a negative", 1.0, "non_finite", {}),
    ("y²", 1e200, "non_finite", {}),  # ẏ is beyond the range of a float
]


def named(case):
    return f"{case[0]} from {case[1]:g}" + "".join(f", {k} {v:g}" for k, v in case[-1].items())


@pytest.mark.parametrize("case", SCALAR, ids=named)
def test_blow_up_of_a_scalar(case):
    """Relative error ≤ 1e-8 at default settings (measured ≤ 3e-11), and the estimate covers it."""
    field, y0, time, exponent, options = case
    found = solve(field, y0, **options)
    assert found.outcome == "blow_up"
    assert abs(found.time - time) <= min(1e-8 * time, found.error)
    assert found.error <= 1e-8 * time
    assert found.exponent == pytest.approx(exponent, rel=1e-3)


@pytest.mark.parametrize("case", UNCERTAIN, ids=lambda case: f"{case[0]} from {case[1]:.13g}")
def test_the_estimate_covers_what_cannot_be_known_better(case):
    field, y0, time, exponent, share = case
    found = solve(field, y0)
    assert found.outcome == "blow_up"
    assert abs(found.time - time) <= found.error <= share * time
    assert found.exponent == pytest.approx(exponent, rel=1e-3)


@pytest.mark.parametrize("case", BOUNDED, ids=named)
def test_no_blow_up_is_claimed(case):
    field, y0, outcome, options = case
    found = solve(field, y0, **options)
    assert found.outcome == outcome
    assert found.time == INF
    assert found.error == INF
    assert np.isnan(found.exponent)


def test_growth_reaches_its_value_at_the_end():
    found = solve("2 y", 1e-3, t1=300.0)
    assert found.state == pytest.approx(1e-3 * np.exp(600), rel=1e-6)  # 600 e-folds at 6e-12 a step


@pytest.mark.parametrize(
    ("field", "start", "end"), [("y (1 − y)", 0.1, 1.0), ("y² − 1", 1 - 1e-8, -1.0)]
)
def test_an_equilibrium_is_reached_in_a_few_steps(field, start, end):
    found = solve(field, start)
    assert found.state == pytest.approx(end, rel=1e-9)
    assert found.steps <= 200


@pytest.mark.parametrize("rtol", [1e-13, 1e-11, 1e-8, 1e-5, 1e-3])
def test_the_estimate_covers_the_error_at_every_tolerance(rtol):
    found = solve("y²", 1.0, rtol=rtol)
    assert abs(found.time - 1) <= found.error <= 10 * rtol + 1e-12
