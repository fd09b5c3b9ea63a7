"""Studies over seeds and widths: the numbers of single runs, scale laws, folders, refusals."""

import json

import numpy as np
import pytest
import xarray

from flowsim.cli import main
from flowsim.experiments.census import census
from flowsim.experiments.seeds import SeedStudy, run
from flowsim.experiments.widths import width_scaling


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    out = tmp_path_factory.mktemp("seeds") / "out"
    config = SeedStudy(task="gaussian", count=2, scales=(1e-2, 5e-3), width=3, rtol=1e-6)
    return run(config, out), out


def test_predicted_times_go_as_one_over_the_scale_and_simulated_ones_come_closer(study):
    first, second = study[0]["scales"]
    expected = pytest.approx(first["predicted_times_scale"], rel=1e-13)
    assert second["predicted_times_scale"] == expected
    assert second["median_relative_error"] < first["median_relative_error"]
    assert first["passed"] + first["failed"] == 2
    assert first["outcomes"] == {"reached_end": 2}


def test_the_folder_holds_every_member(study):
    summary, out = study
    assert json.loads((out / "summary.json").read_text())["count"] == 2
    assert {p.name for p in (out / "figures").iterdir()} >= {"escape_0.01.png", "escape_0.005.pdf"}
    with xarray.open_dataset(out / "seeds.nc", engine="h5netcdf") as found:
        assert found["escape"].dims == ("scale", "member")
        median = float(np.median(found["predicted"][0])) * 1e-2
        assert median == pytest.approx(summary["scales"][0]["predicted_times_scale"], rel=1e-13)


def test_widths_are_those_of_single_censuses(tmp_path):
    found = width_scaling((2, 8), 40, seed=3, out=tmp_path / "out")
    for row in found["widths"]:
        times = np.sort(census(row["width"], 40, seed=3).members.time)
        assert row["median"] == pytest.approx(times[19] * row["width"] ** 0.5, rel=1e-14)
        assert row["first_quartile"] < row["median_from"] < row["median"]
        assert row["median"] < row["median_to"] < row["third_quartile"]
    assert (tmp_path / "out" / "figures" / "widths.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seeds", "--count", "0"], "count must be an integer >= 1; got 0"),
        (["seeds", "--scales", "1e-2,x"], "scales must be numbers with commas between them"),
        (["seeds", "--task", "gaussian", "--scales", "-1"], "scale must be positive"),
        (["seeds", "scales=[]"], "scales must not be empty"),
        (["census", "--widths", "0,2", "--count", "3"], "widths must be an integer >= 1; got 0"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, message):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
