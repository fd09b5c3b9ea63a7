"""The benchmark of single blow-up times at toy size, and the references it counts digits by."""

import json
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import blow_up_single, exact_times, harness


@pytest.fixture(scope="module")
def rows():
    return blow_up_single.measure(toy=True)


def test_every_solver_gives_the_same_time(rows):
    compared = [row for row in rows if row.get("digits") is not None]
    assert {"flowsim", "DOP853", "diffrax Tsit5", "diffrax Dopri8"} <= {
        row["solver"] for row in compared
    }
    for row in compared:
        assert row["digits"] > (15 if row["solver"] == "flowsim" else 7)


def test_a_missing_peer_is_left_out_with_its_reason(monkeypatch):
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda package: None)
    assert "heyoka is not installed" in harness.missing("heyoka")


def test_results_are_json_and_a_table(rows, tmp_path):
    table = harness.save("toy", rows, tmp_path)
    record = json.loads((tmp_path / "toy.json").read_text(encoding="utf-8"))
    assert len(record["rows"]) == len(rows)
    assert record["machine"]["versions"]["jax"]
    assert (tmp_path / "toy.md").read_text(encoding="utf-8") == table + "\n"


def test_references_agree_with_the_published_digits():
    """(1, 2, 3) → 0.50864461857003023821 (theory.md, section 5), embedded in 2×2 matrices."""
    first = np.zeros((2, 2))
    first[0, 0] = 2.0
    time = exact_times.exact_blow_up_time(np.array([1.0, 0]), first, np.array([3.0, 0]))
    error = sum(map(Fraction, time)) / Fraction("0.50864461857003023821") - 1
    assert abs(error) < Fraction(1, 10**19)


def test_references_satisfy_scaling():
    weights = exact_times.short_gaussians(3, 4, 3)
    once = exact_times.exact_blow_up_time(*weights)
    thrice = exact_times.exact_blow_up_time(*(3 * part for part in weights))
    assert abs(3 * sum(map(Fraction, thrice)) / sum(map(Fraction, once)) - 1) < Fraction(1, 10**21)
