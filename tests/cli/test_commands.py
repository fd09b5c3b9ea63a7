"""The command line in process: results, exit codes, one-line errors, nothing half-written."""

import importlib
import json
from html.parser import HTMLParser

import jax
import numpy as np
import pytest

from flowsim.cli import main, settings
from flowsim.cli.main import COMMANDS
from flowsim.cli.parser import build_parser, parse

SMALL = ["--task", "gaussian", "--scale", "1e-2", "width=6", "rtol=1e-6"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    assert main(["run", *SMALL, "--out", str(out)]) == 0
    return out


def test_run_leaves_a_whole_folder(finished):
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["outcome"] == "reached_end"
    assert summary["trusted"]
    assert summary["untrusted_because"] == []
    assert max(summary["conserved_drift"], summary["energy_drift"]) < 1e-3
    assert summary["blow_up"]["verdict"] == "proved"
    assert summary["blow_up"]["lower"] <= summary["blow_up"]["predicted"]
    assert summary["blow_up"]["predicted"] <= summary["blow_up"]["upper"]
    assert summary["blow_up"]["relative_error"] < 0.1
    assert summary["events"]["onset"] == summary["onset"]["simulated"]
    assert (finished / "config.toml").exists()
    figures = {path.name for path in (finished / "figures").iterdir()}
    assert {"overview.png", "overview.pdf", "loss.png", "similarity.pdf"} <= figures
    assert not list(finished.rglob("*.partial*"))
    assert summary["plateau"]["exists"]
    onset = summary["onset"]
    assert onset["predicted"] == pytest.approx(onset["simulated"], rel=0.05)


def test_the_summary_compares_and_dates_the_assumptions(finished):
    summary = json.loads((finished / "summary.json").read_text())
    comparison, events = summary["comparison"], summary["events"]
    assert comparison["onset"]["simulated"] == events["onset"]
    assert comparison["blow_up"]["predicted"] == summary["blow_up"]["predicted"]
    assert 0 < comparison["at_blow_up"]["W_Q"] < 0.1
    assert events["escape"] < comparison["linear_departure"] <= summary["final"]["time"]
    since, at = summary["assumptions"]["since"], summary["assumptions"]["at"]
    assert set(since) == {"1", "2", "2*"}
    assert set(at) == {*events, "end"}
    assert at["end"]["criticality"] < at["escape"]["criticality"]
    assert all(name in summary for name in ("cautions", "trusted_until"))


def test_the_page_is_self_contained_and_holds_every_figure(finished):
    page = (finished / "report.html").read_text(encoding="utf-8")
    reader = PageReader()
    reader.feed(page)
    figures = {path.stem for path in (finished / "figures").glob("*.png")}
    assert set(reader.figures) == figures
    assert reader.open_tags == []
    assert all(source.startswith("data:image/png;base64,") for source in reader.sources)
    assert "<script" not in page
    assert "http" not in page


class PageReader(HTMLParser):
    """Collects figures and image sources, and checks that tags close in order."""

    VOID = frozenset({"meta", "img"})

    def __init__(self):
        super().__init__()
        self.open_tags, self.figures, self.sources = [], [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag not in self.VOID:
            self.open_tags.append(tag)
        if tag == "figure":
            self.figures.append(found["id"])
        if tag == "img":
            self.sources.append(found["src"])
            assert found["alt"]

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag


def test_the_saved_trajectory_loads(finished):
    from flowsim import Parameters, Trajectory

    run = Trajectory.load(finished / "trajectory.nc")
    assert isinstance(run.states, Parameters)
    summary = json.loads((finished / "summary.json").read_text())
    assert run.event_times["onset"] == summary["onset"]["simulated"]


def test_a_finished_folder_is_refused_and_left_alone(finished, capsys):
    before = (finished / "summary.json").read_bytes()
    assert main(["run", *SMALL, "--out", str(finished)]) == 2
    assert "out must" in only_line(capsys)
    assert (finished / "summary.json").read_bytes() == before


def test_the_stored_configuration_runs_again(finished, tmp_path, capsys):
    out = tmp_path / "again"
    code = main(["run", "--config", str(finished / "config.toml"), "--out", str(out), "--json"])
    assert code == 0
    again = json.loads(capsys.readouterr().out)
    first = json.loads((finished / "summary.json").read_text())
    assert again["events"] == first["events"]
    assert again["final"] == first["final"]


def test_blowup_prints_one_case_or_many(capsys):
    assert main(["blowup", "--width", "3", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert set(one) == {"blow_up_time", "lower", "upper", "verdict", "energy", "steps"}
    assert main(["blowup", "--width", "3", "--count", "2", "--json"]) == 0
    many = json.loads(capsys.readouterr().out)["cases"]
    assert many[0] == one
    assert len(many) == 2


def test_blowup_reads_files_and_writes_null_for_never(tmp_path, capsys):
    (tmp_path / "w.json").write_text('{"W_v": [1], "W_1": [[2]], "W_2": [3]}')
    assert main(["blowup", "--input", str(tmp_path / "w.json"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["blow_up_time"] == pytest.approx(0.50864461857003023821, rel=1e-15)
    np.savez(tmp_path / "w.npz", W_v=np.zeros(2), W_1=np.zeros((2, 2)), W_2=np.zeros(2))
    assert main(["blowup", "--input", str(tmp_path / "w.npz"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["blow_up_time"] is None
    assert found["verdict"] == "never"


def test_a_failed_run_exits_with_1(tmp_path, capsys):
    assert main(["run", *SMALL, "max_steps=5", "--out", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["outcome"] == "too_many_steps"
    assert "not trusted: it ended as too_many_steps" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    "command", ["run", "blowup", "compare", "census", "seeds", "paper", "info"]
)
def test_help_ends_with_an_example_on_one_line_that_is_understood(command, monkeypatch, capsys):
    module = importlib.import_module(f"flowsim.cli.{command}")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == module.EXAMPLE
    monkeypatch.setattr(module, "execute", settings.given if command != "info" else print)
    options = parse(build_parser(COMMANDS), last.split()[2:])
    assert options.command == command
    if command not in ("info", "paper"):
        assert options.execute(options)


def test_info_names_versions(capsys):
    assert main(["info"]) == 0
    assert f"jax {jax.__version__}" in capsys.readouterr().out


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    X, y = np.ones((2, 2, 3)), np.array([1.0, -1.0])
    np.savez(folder / "labels.npz", X=np.arange(12.0).reshape(2, 2, 3), y=np.array([1.0, 2.0]))
    np.savez(folder / "nan.npz", X=X * np.nan, y=y)
    np.savez(folder / "still.npz", X=X, y=y)
    np.savez(folder / "no_y.npz", X=X)
    np.savez(folder / "chain.npz", X=X, y=np.ones(3))
    (folder / "file").write_text("")
    (folder / "w.json").write_text('{"W_v": [1, 2], "W_1": [[2]], "W_2": [3]}')
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--scale", "0"], "scale must be positive"),
        (["run", "--scale", "1e-2", "rate=1"], "scale must not be given together with rate"),
        (["run", "--scale", "x"], "argument --scale: invalid float value"),
        (["run", "--activation", "relu"], "activation"),
        (["run", "--loss", "hinge"], "loss must be one of"),
        (["run", "--seed", "-1"], "seed must be an integer >= 0"),
        (["run", "--task", "digit"], "did you mean 'digits'"),
        (["run", "--task", "BAD/labels.npz"], "y must hold labels"),
        (["run", "--task", "BAD/nan.npz"], "X must be finite"),
        (["run", "--task", "BAD/still.npz"], "condensation direction"),
        (["run", "--task", "BAD/no_y.npz"], "y"),
        (["run", "--task", "BAD/chain.npz"], "shapes must chain"),
        (["run", "--task", "BAD/absent.npz"], "absent.npz"),
        (["run", "--out", "BAD/file"], "out must"),
        (["run", "solver=euler"], "solver must be one of"),
        (["run", "rtol=1"], "rtol must lie in"),
        (["run", "t1=-1"], "t1 must be positive"),
        (["run", "max_steps=0"], "max_steps must be an integer >= 1"),
        (["run", "skale=1"], "did you mean 'scale'"),
        (["blowup"], "exactly one of input and width must be given"),
        (["run", "--seed", str(2**63)], "seed must be an integer <= 9223372036854775807"),
        (["run", "--task", "text:BAD/file"], "be a text that is not empty"),
        (["run", "--scale", "1e-320"], "scale must lie in (1e-100, 1e+100)"),
        (["run", "rate=-1"], "rate must be positive"),
        (["run", "--width", "99999999999999999999"], "width must be an integer <= "),
        (["blowup", "--width", "9999999"], "width must leave a square matrix that fits in"),
        (["blowup", "--width", "0"], "width must be an integer >= 1"),
        (["blowup", "--width", "2", "--count", "0"], "count must be an integer >= 1"),
        (["blowup", "--input", "BAD/w.json"], "shapes must chain"),
        (
            ["run", "width=3", "--sedd", "1"],
            "--sedd 1 (did you mean '--seed'?) (see flowsim run --help)",
        ),
        (["paper"], "required: FIGURE (see"),
        (["info", "width=3"], "unrecognized arguments: width=3"),
        (["run", "width=3", "--json", "scale=0"], "scale must be positive"),
        (["dance"], "invalid choice: 'dance'"),
        ([], "COMMAND"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, message, bad_files, tmp_path, capsys):
    arguments = [argument.replace("BAD", str(bad_files)) for argument in arguments]
    out = tmp_path / "out"
    if arguments[:1] == ["run"] and "--out" not in arguments:
        arguments = [*arguments, "--out", str(out)]
    assert main(arguments) == 2
    assert message in only_line(capsys)
    assert not out.exists() or not (out / "summary.json").exists()


def test_memory_that_runs_out_is_one_line(monkeypatch, capsys):
    from flowsim.experiments import cases

    def exhausted(config):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory\nallocating 8 bytes.")

    monkeypatch.setattr(cases, "solve", exhausted)
    assert main(["blowup", "--width", "2"]) == 2
    assert "not enough memory: RESOURCE_EXHAUSTED: Out of memory allocating" in only_line(capsys)


def only_line(capsys) -> str:
    """Standard error, which must be one line; standard output must be empty."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("flowsim: ")
    return captured.err
