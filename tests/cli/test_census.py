"""`flowsim census`: what it prints, what it leaves, what it refuses."""

import json

import numpy as np
import pytest

from flowsim import storage
from flowsim.blow_up import blow_up_time
from flowsim.cli import main
from flowsim.cli.main import warning_line
from flowsim.ensemble import GaussianChains, solving
from flowsim.experiments.census import census

SMALL = ["census", "--width", "2", "--count", "300"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("census") / "out"
    assert main([*SMALL, "--out", str(folder)]) == 0
    return folder


def test_json_has_the_keys_of_the_contract(out, capsys):
    assert main([*SMALL, "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["count"] == 300
    assert found["undecided"] == 0
    assert found["median"] == found["quantiles"]["0.5"]
    assert found == json.loads((out / "summary.json").read_text())


def test_the_netcdf_has_labelled_members(out):
    dataset = storage.read_netcdf(out / "census.nc")
    assert dataset["time"].dims == ("member",)
    assert dataset.attrs["seed"] == 0
    assert dataset.attrs["clock"] == "unit rate"
    assert np.isfinite(dataset["time"].values).all()
    names = {path.name for path in (out / "figures").iterdir()}
    assert {"survival.png", "survival.pdf", "energy_sign.png"} <= names


def test_a_finished_census_is_not_written_again(out):
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    assert main([*SMALL, "--out", str(out)]) == 0
    assert before == {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}


def test_text_names_the_numbers(capsys, out):
    assert main([*SMALL, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "300 starts, h = 2, m = 2, 0 undecided" in text
    assert "limit for large h 1.16797277107" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--width", "2", "--count", "0"], "count must be an integer >= 1"),
        (["--width", "0", "--count", "2"], "width must be an integer >= 1"),
        (["--width", "2", "--count", "2", "--seed", "-1"], "seed must be an integer >= 0"),
        (["--width", "2", "--count", "2", "--source", "chain"], "did you mean 'chains'"),
        (["--width", "2"], "count must be an integer; got None"),
        (["--width", "2", "--count", "2", "--distributed", "x:1,2,2"], "HOST:PORT,N,I with I < N"),
        (["--width", "2000000000", "--count", "1"], "width must leave one start's Taylor series"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, message, tmp_path, capsys):
    assert main(["census", *arguments, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("entry", ["lanes", "shard_size"])
def test_a_damaged_identity_is_one_line(entry, tmp_path, capsys):
    (tmp_path / "census.json").write_text(f'{{"{entry}": "x"}}')
    assert main([*SMALL, "--out", str(tmp_path)]) == 2
    assert f"{entry} in census.json must be an integer; got 'x'" in capsys.readouterr().err


def test_the_last_shorter_shard_is_solved_by_the_program_of_the_others():
    source = GaussianChains(2, 2, seed=1)
    whole, compiled = source.solve(2048, 4096), solving._on_devices._cache_size()
    part = source.solve(2048, 2053, room=2048)
    assert solving._on_devices._cache_size() == compiled
    np.testing.assert_array_equal(part.time, whole.time[:5])
    np.testing.assert_array_equal(part.energy, whole.energy[:5])


def test_another_census_in_the_folder_is_refused(out, capsys):
    assert main(["census", "--width", "2", "--count", "300", "--seed", "1", "--out", str(out)]) == 2
    assert "seed 0 there, 1 here" in capsys.readouterr().err


def test_given_weights_and_matrices_agree_with_blow_up_time():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2))
    weights[0][2], weights[1][2], weights[2][2] = 0, 0, 0
    found = census(weights=weights)
    expected = [float(blow_up_time(*(w[i] for w in weights)).time) for i in range(3)]
    assert found.members.time.tolist() == expected
    assert found.summary()["never"] == 1
    with pytest.raises(ValueError, match="count must be at most the 3 given starts"):
        census(count=4, weights=weights)
    with pytest.raises(ValueError, match="width must not be given together with weights"):
        census(2, weights=weights)


def test_matrices_are_the_starts_of_blowup(capsys):
    assert main(["blowup", "--width", "2", "--count", "3", "--seed", "4", "--json"]) == 0
    cases = json.loads(capsys.readouterr().out)["cases"]
    found = census(2, 3, seed=4, source="matrices")
    assert found.members.time.tolist() == [case["blow_up_time"] for case in cases]


def test_a_warning_is_one_line():
    line = warning_line(UserWarning("shard 1 is\ncomputed again"), UserWarning, "file.py", 3)
    assert line == "flowsim: warning: shard 1 is computed again\n"
