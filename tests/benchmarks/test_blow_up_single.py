"""The benchmark of single blow-up times at toy size, and the references it counts digits by."""

import json
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import blow_up_single, exact_times, harness, work_precision


@pytest.fixture(scope="module")
def rows():
    return list(harness.collected(blow_up_single.measure(toy=True)))


def test_every_solver_gives_the_same_time(rows):
    compared = [row for row in rows if row.get("digits") is not None]
    expected = {"flowsim", "DOP853", "LSODA", "Radau", "diffrax Tsit5", "diffrax Dopri8"}
    assert expected <= {row["solver"] for row in compared}
    for row in compared:
        assert row["digits"] > (15 if row["solver"] == "flowsim" else 7)


def test_a_missing_peer_is_left_out_with_its_reason():
    assert harness.missing("numpy") is None
    assert "No module named 'no_such_peer'" in harness.missing("no_such_peer")


def test_work_and_precision_are_drawn():
    """Fewer than all solvers, two problems, one of them without a peer."""
    rows = [
        {"problem": problem, "solver": solver, "ms": 1.0 + i, "digits": 5.0 + i}
        for problem in ("a", "b")
        for solver, points in (("flowsim", 1), ("DOP853", 3))
        for i in range(points)
    ]
    panels = work_precision.draw(rows).axes
    assert [len(ax.lines) for ax in panels] == [2, 2]
    assert list(panels[0].lines[1].get_ydata()) == [5.0, 6.0, 7.0]


@pytest.mark.parametrize("form", [work_precision.FLOW, work_precision.REDUCED])
def test_a_finer_tolerance_gives_more_digits(form):
    solvers = list(work_precision.solvers(2, form, [1e-5, 1e-9]))
    exact = exact_times.exact_blow_up_time(*exact_times.short_gaussians(work_precision.SEED, 2, 2))
    coarse, fine = (
        harness.digits(call(), *exact) for name, rtol, call in solvers if name == "DOP853"
    )
    assert fine > coarse + 2


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
