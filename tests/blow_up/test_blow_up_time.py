"""The public door: reference values, identities, verdicts, bad input."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.blow_up import blow_up_time, rank_one_blow_up_time

REFERENCE = json.loads((Path(__file__).parent / "reference_times.json").read_text())


def gaussian(seed, h, m):
    rng = np.random.default_rng(seed)
    return rng.normal(size=h), rng.normal(size=(h, m)), rng.normal(size=m)


def embedded(value, first, second):
    """A scalar start inside 2×2 matrices."""
    corner = np.array([[1.0, 0.0], [0.0, 0.0]])
    return value * corner[0], first * corner, second * corner[0]


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda c: str(np.shape(c["W_1"])))
def test_reference_values(case):
    found = blow_up_time(case["W_v"], case["W_1"], case["W_2"])
    truth = Fraction(case["blow_up_time"])
    assert abs(Fraction(float(found.time)) / truth - 1) <= Fraction(1e-15)
    assert Fraction(float(found.lower)) <= truth <= Fraction(float(found.upper))
    assert found.upper - found.lower <= 1e-13 * found.time
    assert found.verdict == "proved"
    assert found.energy == pytest.approx(case["E0"], rel=1e-13)


@pytest.mark.parametrize("power", [-1000, -300, -1, 17, 300, 900])
def test_powers_of_two_scale_bit_for_bit(power):
    weights = gaussian(0, 5, 3)
    plain, scaled = blow_up_time(*weights), blow_up_time(*(a * 2.0**power for a in weights))
    for name in ("time", "lower", "upper"):
        assert getattr(scaled, name) * 2.0**power == getattr(plain, name)
    np.testing.assert_array_equal(scaled.value_direction, plain.value_direction)


@pytest.mark.parametrize("numbers", [(1, 1, -1), (1, 1, -2), (-1, 1, 1), (2, -1, 1), (1, -2, 1)])
def test_degenerate_starts_get_no_finite_time(numbers):
    scalar = blow_up_time([numbers[0]], [[numbers[1]]], [numbers[2]])
    assert scalar.verdict == "never"
    assert scalar.time == np.inf
    inside = blow_up_time(*embedded(*numbers))
    assert inside.verdict == "undecided"
    assert inside.time == inside.upper == np.inf
    assert 0 < inside.lower < np.inf


@pytest.mark.parametrize("numbers", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_equilibria_never_blow_up(numbers):
    for weights in (embedded(*numbers), ([numbers[0]], [[numbers[1]]], [numbers[2]])):
        found = blow_up_time(*weights)
        assert found.verdict == "never"
        assert found.time == found.lower == found.upper == np.inf
        assert not np.any(found.value_direction)


@pytest.mark.parametrize(
    "numbers",
    [(1, 2, 3), (1, 2, -3), (0, 2, 3), (2, 0, 3), (1e-100, 1, -2e-100), (1e-200, 1, 1e-200)],
)
def test_the_engine_agrees_with_the_closed_form(numbers):
    found, exact = blow_up_time(*embedded(*numbers)), rank_one_blow_up_time(*numbers)
    assert found.time == pytest.approx(float(exact), rel=1e-15 * max(1.0, found.steps / 10))
    assert found.lower <= exact <= found.upper
    assert found.verdict == "proved"
    scalar = blow_up_time([numbers[0]], [[numbers[1]]], [numbers[2]])
    assert found.value_direction[0] == pytest.approx(scalar.value_direction[0], rel=1e-15)
    assert found.hidden_direction[0] == pytest.approx(scalar.hidden_direction[0], rel=1e-15)


def test_traced_use_gives_the_same_numbers():
    batch = [gaussian(seed, 5, 3) for seed in range(4)]
    stacked = tuple(jnp.stack(parts) for parts in zip(*batch, strict=True))
    found = jax.jit(jax.vmap(blow_up_time))(*stacked)
    assert np.all(found.verdict == "proved")
    for i, weights in enumerate(batch):
        alone = blow_up_time(*weights)
        np.testing.assert_allclose(found.time[i], alone.time, rtol=1e-15)
        np.testing.assert_allclose(found.hidden_direction[i], alone.hidden_direction, atol=1e-14)


def test_single_precision_is_refused_with_the_line_to_add():
    code = "import flowsim as fs; fs.blow_up_time([1.0], [[2.0]], [3.0])"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "RuntimeError: blow_up_time needs double precision" in ended.stderr
    assert "jax.config.update('jax_enable_x64', True)" in ended.stderr


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (([1.0, 2.0], [[1.0]], [1.0]), "W_v has length 2 where W_1 .rows. has length 1"),
        (([1.0], [[1.0]], [1.0, 2.0]), "W_2 has length 2 where W_1 .columns. has length 1"),
        (([], np.zeros((0, 1)), [1.0]), "W_v must not be empty"),
        (([np.nan], [[1.0]], [1.0]), "W_v must be finite"),
        (([1.0], [[np.inf]], [1.0]), "W_1 must be finite"),
        (([1.0], [[1.0]], [1j]), "W_2 must be real"),
        (([1.0], [1.0], [1.0]), "W_1 must have 2 axes"),
    ],
)
def test_bad_input_is_named(weights, message):
    with pytest.raises(ValueError, match=message):
        blow_up_time(*weights)


def test_an_unknown_engine_is_named():
    with pytest.raises(ValueError, match="engine must be one of taylor, runge_kutta"):
        blow_up_time([1.0], [[1.0]], [1.0], engine="tailor")
