"""Mutated files and command lines end in a result or in one line and exit code 2.

`make fuzz` runs many more of them than the suite does.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import mutation
import numpy as np
import pytest
from computing import ComputingError

import flowsim as fs
from flowsim import storage
from flowsim.cli import main

#: Cases in process, over all kinds, and as processes of their own.
CASES = int(os.environ.get("FLOWSIM_FUZZ_CASES", "500"))
PROCESSES = int(os.environ.get("FLOWSIM_FUZZ_PROCESSES", "3"))
SEED = int(os.environ.get("FLOWSIM_FUZZ_SEED", "2025"))
#: No case may take longer (seconds).
PATIENCE = 120
ONE_LINE = re.compile(r"flowsim: [^\n\r]{5,1000}\n")

RUN = ["run", "--scale", "0", "--task"]
LINES = [
    ["run", "--task", "gaussian", "--width", "3", "--scale", "1e-2", "--seed", "1", "rtol=1e-6"],
    ["run", "--task", "task.npz", "--json", "--out", "out", "t1=5", "--overwrite"],
    ["run", "--config", "run.toml", "--activation", "gelu", "--loss", "logistic"],
    ["blowup", "--width", "2", "--count", "2", "--seed", "3", "--json"],
    ["blowup", "--input", "w.npz", "--json"],
    ["blowup", "--input", "w.json"],
    ["compare", "--task", "task.npz", "--rates", "0.1,0.2", "--batches", "4", "--out", "out"],
    ["census", "--width", "2", "--count", "5", "--source", "matrices", "--out", "out", "shard=2"],
    ["paper", "fig1a", "--preset", "small", "--out", "out", "epochs=3"],
    ["paper", "text", "--text", "a.txt", "--out", "out"],
    ["paper", "list"],
    ["info"],
]


def damaged(name, random):
    Path(name).write_bytes(mutation.bytes_of(Path(name).read_bytes(), random))


def task_file(random):
    if random.integers(2):
        damaged("task.npz", random)
    else:
        arrays = mutation.arrays_of(storage.read_npz("task.npz"), random)
        Path("task.npz").write_bytes(mutation.npz_bytes(arrays))
    return [*RUN, "task.npz"]


def weights_file(random):
    if random.integers(2):
        damaged("w.npz", random)
    else:
        arrays = mutation.arrays_of(storage.read_npz("w.npz"), random)
        Path("w.npz").write_bytes(mutation.npz_bytes(arrays))
    return ["blowup", "--input", "w.npz", "--json"]


def json_file(random):
    if random.integers(2):
        damaged("w.json", random)
    else:
        fields = mutation.fields_of(storage.read_json("w.json"), random)
        Path("w.json").write_text(json.dumps(fields))
    return ["blowup", "--input", "w.json", "--json"]


def toml_file(random):
    if random.integers(2):
        damaged("run.toml", random)
    else:
        fields = mutation.fields_of(storage.read_toml("run.toml"), random)
        text = mutation.toml_text(fields)
        Path("run.toml").write_text(text, encoding="utf-8", errors="surrogateescape")
    command = mutation.pick([["run"], ["compare"], ["census"], ["paper", "fig1a"]], random)
    return [*command, "--config", "run.toml"]


def text_file(random):
    damaged("a.txt", random)
    return [*RUN, "text:a.txt"]


def command_line(random):
    return mutation.words_of(mutation.pick(LINES, random), random)


COMMANDS = {
    "task .npz": task_file,
    "weights .npz": weights_file,
    "JSON": json_file,
    "TOML": toml_file,
    "text": text_file,
    "command line": command_line,
}
EACH = -(-CASES // (len(COMMANDS) + 1))


@contextmanager
def patience(what):
    """Fails where the block takes too long."""

    def late(*_):
        raise TimeoutError(f"{what} hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ending(arguments, capsys):
    """How a command ended, and that it was one of the ways in which it may."""
    try:
        with patience(arguments):
            code = main(arguments)
    except ComputingError:
        return "accepted"
    except SystemExit as asked:  # --help, --version
        code = asked.code
    captured = capsys.readouterr()
    if code == 2:
        assert captured.out == "", arguments
        assert ONE_LINE.fullmatch(captured.err), (arguments, captured.err)
        return "refused"
    assert code in (0, 1), arguments
    assert captured.out, arguments
    if captured.out.startswith("{"):
        json.loads(captured.out, parse_constant=pytest.fail)
    return "result"


def whole(folder):
    """Nothing half-written lies about."""
    assert not list(folder.rglob("*.partial*"))
    for path in folder.rglob("summary.json"):
        storage.read_json(path)


def contents(folder):
    return {path: path.read_bytes() for path in folder.iterdir()}


def restore(folder, valid):
    """The valid files, and nothing else."""
    for path in set(folder.iterdir()) - set(valid):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path, data in valid.items():
        path.write_bytes(data)


@pytest.mark.parametrize("kind", COMMANDS)
def test_commands_end_in_a_result_or_in_one_line(kind, inputs, only_validated, capsys):
    random = np.random.default_rng([SEED, list(COMMANDS).index(kind)])
    valid = contents(inputs)
    ends = {"accepted": 0, "result": 0, "refused": 0}
    for _ in range(EACH):
        restore(inputs, valid)
        arguments = COMMANDS[kind](random)
        ends[ending(arguments, capsys)] += 1
        whole(inputs)
    assert ends["refused"] > 0
    assert sum(ends.values()) == EACH


def test_trajectories_load_or_are_refused(inputs):
    """Damaged bytes, and valid files with strange attributes."""
    import xarray

    random, complaints = np.random.default_rng([SEED, 99]), []
    data = Path("run.nc").read_bytes()
    with xarray.open_dataset("run.nc", engine="h5netcdf", decode_cf=False) as opened:
        dataset = opened.load()
    for i in range(EACH):
        if i % 2:
            changed = mutation.bytes_of(data, random)
        else:
            strange = dataset.copy()
            name = str(mutation.pick(list(dataset.attrs), random))
            strange.attrs[name] = json.dumps(mutation.pick(mutation.STRANGE, random))
            changed = mutation.netcdf_bytes(inputs, strange)
        Path("run.nc").write_bytes(changed)
        try:
            with patience(f"case {i}"):
                fs.Trajectory.load("run.nc")
        except ValueError as error:
            complaints.append(str(error))
    assert len(complaints) > EACH // 3
    assert all(re.fullmatch(r"path must [^\n\r]{5,1000}", text) for text in complaints)


@pytest.mark.skipif(PROCESSES == 0, reason="none asked for")
def test_processes_end_in_a_result_or_in_one_line(inputs):
    random = np.random.default_rng([SEED, 7])
    cheap, valid = ["task .npz", "weights .npz", "JSON", "text"], contents(inputs)
    for i in range(PROCESSES):
        restore(inputs, valid)
        arguments = COMMANDS[cheap[i % len(cheap)]](random)
        ended = subprocess.run(
            [sys.executable, "-m", "flowsim", *arguments],
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        if ended.returncode == 2:
            assert ended.stdout == ""
            assert ONE_LINE.fullmatch(ended.stderr), (arguments, ended.stderr)
        else:
            assert ended.returncode == 0, (arguments, ended.stderr)
            json.loads(ended.stdout)
        whole(inputs)
