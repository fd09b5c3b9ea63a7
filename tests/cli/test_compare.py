"""`flowsim compare` in process: slopes, tables, figures, one-line errors."""

import json

import jax
import numpy as np
import pytest

from flowsim.cli import main
from flowsim.experiments import config
from flowsim.experiments.descent_comparison import DescentStudy, Study, draw
from flowsim.report.canvas import UNTRUSTED


@pytest.fixture(scope="module")
def task_file(tmp_path_factory):
    """A planted task small enough for a test."""
    import flowsim as fs

    task = fs.tasks.gaussian(samples=24, length=3, width=4, key=jax.random.key(1))
    path = tmp_path_factory.mktemp("task") / "small.npz"
    np.savez(path, X=task.X, y=task.y)
    return str(path)


@pytest.fixture(scope="module")
def finished(task_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    arguments = ["--task", task_file, "--scale", "3e-2", "--batches", "4,8", "members=4"]
    assert main(["compare", *arguments, "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_slopes_are_the_orders(finished):
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["slopes"]["descent"] == pytest.approx(1.0, abs=0.05)
    assert summary["slopes"]["modified"] == pytest.approx(2.0, abs=0.1)
    assert [row["steps"] for row in summary["rates"]] == [250, 500, 1000, 2000]
    for row in summary["rates"]:
        assert row["learning_rate"] * row["steps"] == pytest.approx(summary["time"])
        assert row["modified_error"] < 0.1 * row["descent_error"]
        assert row["lag_at_blow_up"] == pytest.approx(row["predicted_lag"], rel=0.1)
    assert [row["batch_size"] for row in summary["batches"]] == [4, 8]


@pytest.mark.slow
def test_the_folder_is_whole(finished):
    figures = {path.name for path in (finished / "figures").iterdir()}
    names = ("orders", "distances", "lags", "batch_sizes", "sharpness")
    assert figures == {f"{name}.{kind}" for name in names for kind in ("png", "pdf")}
    for name in ("rates.md", "rates.csv", "batches.md"):
        assert (finished / name).stat().st_size > 0


@pytest.mark.slow
def test_the_configuration_says_what_was_run_and_the_summary_whether_it_is_trusted(finished):
    summary = json.loads((finished / "summary.json").read_text())
    found = config.resolve(DescentStudy, file=str(finished / "config.toml"))
    assert (found.width, found.batches) == (4, (4, 8))
    assert list(found.rates) == [row["learning_rate"] for row in summary["rates"]]
    assert summary["trusted"]
    assert summary["untrusted_because"] == []


@pytest.mark.parametrize("trusted", [True, False])
def test_every_figure_of_an_untrusted_flow_is_marked(trusted, tmp_path, monkeypatch):
    row = {"learning_rate": 0.1, "descent_error": 0.1, "modified_error": 0.01}
    row |= {"lag_at_blow_up": 0.2, "predicted_lag": 0.2}
    summary = {"rates": [row], "batches": [{"batch_size": 4, "distance": 0.1}]}
    drawn = []
    monkeypatch.setattr("flowsim.report.save_figure", lambda ax, *rest: drawn.append(ax))
    draw(Study(summary, {}, (np.ones(2), np.ones(2)), 1.0, trusted), tmp_path)
    marks = [[text for text in ax.texts if text.get_gid() == UNTRUSTED] for ax in drawn]
    assert [len(found) for found in marks] == [0 if trusted else 1] * 5


@pytest.mark.slow
def test_json_and_given_rates(task_file, capsys):
    arguments = ["--task", task_file, "--scale", "3e-2", "--batches", "4", "members=4"]
    assert main(["compare", *arguments, "--rates", "0.05,0.1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["slopes"]) == {"descent", "modified"}
    for row, eta in zip(
        sorted(r["learning_rate"] for r in found["rates"]), (0.05, 0.1), strict=True
    ):
        assert row == pytest.approx(eta, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rates", "0.1,-1"], "rates must be positive and finite; got -1.0"),
        (["--rates", "fast"], "rates must be numbers with commas between them; got 'fast'"),
        (["--batches", "25"], "batches must be at most the number of samples, 24; got 25"),
        (["fraction=1.5"], "fraction must lie in (0, 1); got 1.5"),
        (["batches=[]"], "batches must not be empty; got ()"),
        (["colour=red"], "configuration key must be one of"),
    ],
)
def test_bad_input_is_one_line(task_file, tmp_path, capsys, arguments, message):
    out = tmp_path / "out"
    assert main(["compare", "--task", task_file, *arguments, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not out.exists()
