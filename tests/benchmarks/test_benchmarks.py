"""Every benchmark at toy size, their runner, and the page made from their results."""

import importlib
import json
import sys
import time

import pytest

from benchmarks import __main__ as runner
from benchmarks import harness, table

TOYS = ("bandwidth", "ensembles", "first_result", "full_model", "gpu", "gradient", "growth")
COMPARED = ("ensembles", "full_model")


def toy_rows(name):
    return list(harness.collected(importlib.import_module(f"benchmarks.{name}").measure(toy=True)))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with the results of all toys but those that have a test of their own."""
    folder = tmp_path_factory.mktemp("results")
    for name in TOYS:
        harness.save(name, toy_rows(name), folder, about=name)
    return folder


@pytest.mark.parametrize("name", [*TOYS, "stiff", "descent"])
def test_every_benchmark_runs_at_toy_size(name, results):
    if name in TOYS:
        rows = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    else:
        rows = toy_rows(name)
    assert rows
    times = [v for row in rows for k, v in row.items() if k in ("ms", "seconds", "gradient ms")]
    assert times or name == "gpu"
    assert all(value > 0 for value in times)


def test_solvers_of_one_ensemble_agree(results):
    rows = table.records(results)["ensembles"]["rows"]
    assert len(rows) >= 3
    assert max(row["largest difference"] for row in rows if "ms" in row) < 1e-11


def test_solvers_of_the_full_model_agree_and_descent_needs_more_gradients(results):
    rows = table.records(results)["full_model"]["rows"]
    descent = [row for row in rows if row["solver"].startswith("descent")]
    assert len(descent) == 2
    assert min(row["digits"] for row in rows if row not in descent) > 4
    assert descent[1]["evaluations"] > 10 * rows[0]["evaluations"]


def test_the_page_has_every_benchmark_and_says_where_flowsim_is_slower(results):
    path = table.write_page(results)
    text = path.read_text(encoding="utf-8")
    assert all(f"## {name}" in text for name in TOYS)
    assert "Where flowsim is slower" in text
    assert "peak memory" in text


def row(solver, times, digits):
    return {"problem": "p", "solver": solver, "ms": times, "times ours": times, "digits": digits}


def test_a_quicker_peer_is_named_and_its_accuracy_told():
    rows = [row("flowsim", 1.0, 16.0), row("rough", 0.2, 8.0), row("good", 0.5, 15.5)]
    found = {"x": {"rows": [*rows, row("slow", 3.0, 16.0)]}}
    assert list(table.slower(found, exact=True)) == ["p: good takes 0.5 of flowsim's time"]
    (words,) = table.slower(found)
    assert "rough takes 0.2 of flowsim's time for 8.0 digits instead of 16.0" in words
    assert table.short(found)[0]["best other"] == "good"


def test_a_spent_budget_is_said_after_a_whole_group():
    def groups():
        yield ({"a": i} for i in range(3))
        time.sleep(0.05)
        yield [{"a": 3}]

    rows = list(harness.collected(groups(), seconds=0.02))
    assert rows[:3] == [{"a": 0}, {"a": 1}, {"a": 2}]
    assert "are spent" in rows[3]["left out"]
    assert len(rows) == 4


def test_the_runner_goes_on_after_a_failure_and_refuses_unknown_names(monkeypatch, tmp_path, capfd):
    monkeypatch.setitem(runner.SECONDS, "no_such_benchmark", 60)
    names = ["no_such_benchmark", "gpu"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *names, "--toy", "--out", str(tmp_path)])
    assert runner.main() == 1
    assert (tmp_path / "gpu.json").exists()
    assert "FAILED" in capfd.readouterr().out
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nothing"])
    with pytest.raises(SystemExit):
        runner.main()
