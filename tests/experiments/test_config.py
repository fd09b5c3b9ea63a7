"""Configurations: precedence, types, refusals, and a round trip through TOML."""

import pytest

from flowsim.experiments import config
from flowsim.experiments.two_stage import TwoStage


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
