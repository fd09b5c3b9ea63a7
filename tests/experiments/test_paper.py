"""The paper's figures at toy size: each runs, is whole on disk and states claims with verdicts."""

import json

import numpy as np
import pytest

from flowsim.cli import main
from flowsim.experiments.paper import presets, registry, running
from flowsim.experiments.paper.finding import claim, order, together
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.registry import FIGURES, WITH_TEXT

TOY = {
    "width": 8,
    "hidden_width": 12,
    "samples": 40,
    "test_samples": 20,
    "batch_size": 20,
    "epochs": 12,
    "warm_up_epochs": 2,
    "decay_epochs": 20,
    "rate": 1.0,
    "learning_rate": 2e-2,
    "moments": 20,
    "seeds": (1, 2),
    "task_samples": 30,
    "task_length": 4,
    "task_width": 4,
    "scales": (3e-3, 1e-3),
    "rates": (0.75, 1.5),
    "census_width": 4,
    "census_count": 2000,
    "residual_time": 20.0,
}

#: Figures of the gradient flow, whose claims hold at any size: their orders are theorems.
THEORY = ("theorem2", "gelu", "silu", "logistic")


@pytest.fixture(scope="module")
def lab():
    return Laboratory(presets.preset_of("small", TOY))


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in WITH_TEXT])
def test_every_figure_runs_and_states_its_claims(name, lab, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "FORMATS", ("png",))
    (summary,) = running.run(name, lab, tmp_path)
    folder = tmp_path / name
    stored = json.loads((folder / "summary.json").read_text())
    assert stored["figure"] == name
    assert stored["held"] == all(claim["held"] for claim in stored["claims"])
    assert [c["text"] for c in summary["claims"]] == [c["text"] for c in stored["claims"]]
    assert stored["claims"]
    assert stored["notes"]
    if name in THEORY:
        assert stored["held"], stored["claims"]
    for kind in ("png", "csv", "md"):
        assert (folder / f"{name}.{kind}").stat().st_size > 0
    assert not list(tmp_path.rglob("*.partial*"))


def test_the_commands_text_names_what_failed(lab, tmp_path, capsys):
    pairs = [f"{key}={json.dumps(value)}" for key, value in TOY.items()]
    assert main(["paper", "degeneracy", "--out", str(tmp_path / "p"), *pairs]) == 0
    out = capsys.readouterr().out
    assert "no start is degenerate beyond rounding" in out
    assert (tmp_path / "p" / "degeneracy" / "degeneracy.pdf").stat().st_size > 0
    assert main(["paper", "degeneracy", "--out", str(tmp_path / "p"), *pairs]) == 2
    assert "overwrite" in capsys.readouterr().err


def test_all_leaves_a_folder_a_figure_and_a_line_a_claim(lab, tmp_path, monkeypatch):
    few = {name: FIGURES[name] for name in ("degeneracy", "fig2c", "text")}
    monkeypatch.setattr(registry, "FIGURES", few)
    made = []
    summaries = running.run("all", lab, tmp_path, notice=made.append)
    assert made == ["degeneracy", "fig2c"]
    lines = (tmp_path / "claims.csv").read_text().splitlines()
    assert lines[0] == "figure,claim,held"
    assert len(lines) == 1 + sum(len(s["claims"]) for s in summaries)


def test_all_is_refused_before_a_folder_is_made(lab, tmp_path):
    (tmp_path / "regimes").mkdir()
    (tmp_path / "regimes" / "summary.json").write_text("{}")
    with pytest.raises(ValueError, match=r"out must be a folder without a summary\.json"):
        running.run("all", lab, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["regimes"]


def test_rows_of_several_panels_say_where_they_belong():
    parts = {"a": ([claim("x", True, 1)], [{"n": 1}]), "b": ([], [{"n": 2}, {"m": 3}])}
    claims, rows = together(parts)
    assert [c.text for c in claims] == ["x"]
    assert rows == [{"panel": "a", "n": 1}, {"panel": "b", "n": 2}, {"panel": "b", "m": 3}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig1d"], "figure must be one of all, fig1a"),
        (["fig1a", "--preset", "smal"], "did you mean 'small'"),
        (["fig1a", "--text", "book.txt"], "text must be left out for the figure 'fig1a'"),
        (["text"], "text must name a UTF-8 text file for the figure 'text'"),
        (["fig1a", "epoch=3"], "did you mean 'epochs'"),
        (["fig1a", "batch_size=99999"], "batch_size must be at most the number of samples"),
        (["text", "--text", "/nowhere/book.txt"], "path must be a readable UTF-8 text file"),
        (["all", "--text", "/nowhere/book.txt"], "path must be a readable UTF-8 text file"),
        (["fig1a", "rule=shifts"], "did you mean 'shift'"),
        (["fig1a", "seeds=[-1]"], "seeds must be an integer >= 0; got -1"),
        (["gelu", "scales=[1e-3, 1e-2]"], "scales must be two values or more that fall"),
        (["gelu", "scales=[1e-3]"], "scales must be two values or more that fall"),
        (["regimes", "rates=[2, 1]"], "rates must be two values or more that rise"),
        (["regimes", "rates=[0, 1]"], "rates must lie in (0, 6]; got 0"),
        (["gelu", "scales=[2, 1]"], "scales must lie in [1e-12, 1]; got 2"),
        (["fig1a", "rate=30"], "rate must lie in (0, 6]; got 30"),
        (["fig1a", "warm_up_start=5"], "warm_up_start must lie in [0, 1]; got 5"),
        (["theorem2", "task_width=1"], "task_width must be an integer >= 2; got 1"),
        (["fig1a", "width=999999999"], "width must leave a square matrix that fits"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, capsys):
    assert main(["paper", *arguments, "--out", str(tmp_path / "p")]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_list_names_every_figure(capsys):
    assert main(["paper", "list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in FIGURES)


def test_orders_are_slopes_of_logarithms():
    x = np.array([1e-3, 1e-2, 1e-1])
    assert order(x, 7 * x**1.5) == pytest.approx(1.5, rel=1e-12)
    assert order(x, [1.0, None, np.nan]) is None
