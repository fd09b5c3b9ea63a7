"""Configurations: precedence, types, refusals, a round trip through TOML, and the examples."""

import dataclasses
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from flowsim.cli import main
from flowsim.experiments import cases, census, config, descent_comparison, seeds, two_stage
from flowsim.experiments.paper import laboratory, presets
from flowsim.experiments.two_stage import TwoStage

EXAMPLES = Path(__file__).parents[2] / "examples"
#: The settings of each command, and what a file may hold beside them.
KINDS = {
    "run": (TwoStage, set()),
    "blowup": (cases.Cases, set()),
    "compare": (descent_comparison.DescentStudy, set()),
    "census": (census.Starts, set()),
    "seeds": (seeds.SeedStudy, set()),
    "paper": (presets.Preset, {"preset", "text"}),
}
#: Settings without which a command says nothing: the examples give them.
GIVEN = {"blowup": {"width", "count"}, "census": {"width", "count"}, "run": {"scale"}}


def test_pairs_override_flags_override_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("scale = 0.5\nwidth = 8\nseed = 3\n")
    made = config.resolve(
        TwoStage, file=str(file), flags={"width": 12, "seed": 4, "task": None}, pairs=["seed=5"]
    )
    assert (made.scale, made.width, made.seed, made.task) == (0.5, 12, 5, "digits")


def test_what_is_written_reads_back_the_same(tmp_path):
    made = config.build(TwoStage, {"scale": 1e-3, "task": 'odd "name".npz', "rtol": 1e-9, "t1": 5})
    config.write(tmp_path, made)
    assert config.resolve(TwoStage, file=str(tmp_path / "config.toml")) == made


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["skale=1"], "did you mean 'scale'"),
        (["scale"], "override must read key=value"),
        (["=3"], "override must read key=value"),
        (["width=3.5"], "width must be an integer"),
        (["width=true"], "width must be an integer"),
        (["scale=many"], "scale must be a real number"),
        (["scale=NaN"], "scale must be a number"),
        (["task=3"], "task must be text"),
    ],
)
def test_bad_settings_are_named(pairs, message):
    with pytest.raises((ValueError, TypeError), match=message):
        config.resolve(TwoStage, pairs=pairs)


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="config must be a readable TOML file"):
        config.resolve(TwoStage, file=str(tmp_path / "absent.toml"))


def test_of_two_pairs_the_last_counts():
    assert config.resolve(TwoStage, pairs=["seed=1", "width=8", "seed=2"]).seed == 2


@pytest.mark.parametrize("command", KINDS)
def test_examples_hold_every_setting_with_its_default_and_a_comment(command):
    kind, more = KINDS[command]
    text = (EXAMPLES / f"{command}.toml").read_text(encoding="utf-8")
    given = tomllib.loads(text)
    made = config.build(kind, given)
    named = re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE)
    assert sorted(named) == sorted({field.name for field in dataclasses.fields(kind)} | more)
    changed = {f.name for f in dataclasses.fields(kind) if getattr(made, f.name) != f.default}
    assert changed == GIVEN.get(command, set())
    unset = tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    for name in set(unset) - set(given) - more - {"widths"}:
        config.build(kind, {name: unset[name]})
    assert text.startswith("# Settings of `flowsim " + command)


def test_the_resolved_configuration_has_the_scale_and_the_width_of_the_data(tmp_path):
    X = np.random.default_rng(0).normal(size=(4, 2, 3))
    np.savez(tmp_path / "mine.npz", X=X, y=[1, -1, 1, -1])
    given = TwoStage(task=str(tmp_path / "mine.npz"))
    resolved = two_stage.Setting(given).resolved
    assert (resolved.width, resolved.scale) == (3, 1e-2)
    powered = two_stage.Setting(TwoStage(task=given.task, rate=2.0)).resolved
    assert (powered.scale, powered.rate) == (None, 2.0)


class StoppedError(Exception):
    """In place of a computation."""


def stop(*args, **kwargs):
    raise StoppedError(*args)


def test_paper_takes_its_preset_and_its_text_from_a_file_too(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.toml").write_text('preset = "paper"\ntext = "absent.txt"\nepochs = 7\n')
    monkeypatch.setattr(laboratory, "Laboratory", stop)
    arguments = ["paper", "text", "--config", str(tmp_path / "a.toml"), "--out", str(tmp_path)]
    with pytest.raises(StoppedError) as caught:
        main(arguments)
    preset, text = caught.value.args
    assert (preset.width, preset.epochs, text) == (640, 7, "absent.txt")
    (tmp_path / "b.toml").write_text("text = 3\n")
    assert main([*arguments, "--config", str(tmp_path / "b.toml")]) == 2
    assert "text must be text; got 3" in capsys.readouterr().err
    (tmp_path / "b.toml").write_text('preset = "papier"\n')
    assert main([*arguments, "--config", str(tmp_path / "b.toml")]) == 2
    assert "did you mean 'paper'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("width=3", "width must not be given together with widths; got 3"),
        ("source=matrices", "source must not be given together with widths; got 'matrices'"),
        ("widths=[]", "widths must not be empty"),
        ("widths=[2, true]", "widths must be an integer; got True"),
    ],
)
def test_several_widths_leave_the_rest_to_the_census(pair, message, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["census", "widths=[2]", "--count", "3", "--out", str(out), pair]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
