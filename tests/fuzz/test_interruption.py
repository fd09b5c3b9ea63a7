"""Commands stopped at any write leave whole files, and their next start gives the same result.

Inside one process every write is a moment to stop at; `make fuzz` adds real signals at random
moments of real processes.
"""

import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

from flowsim import storage
from flowsim.cli import main
from flowsim.experiments import two_stage
from flowsim.experiments.paper import finding, registry
from flowsim.outcome import Outcome
from flowsim.storage.writing import TEMPORARY
from flowsim.trajectory import Trajectory

#: Real processes to stop, a command and a signal.
KILLS = int(os.environ.get("FLOWSIM_FUZZ_KILLS", "0"))
SEED = int(os.environ.get("FLOWSIM_FUZZ_SEED", "2025"))
COMMANDS = {
    "run": "run --task gaussian width=3 rtol=1e-6 t1=300 --json",
    "census": "census --width 2 --count 6 source=matrices shard=2",
    "paper": "paper degeneracy task_samples=30 task_width=4 census_count=2000 census_width=4",
}


def arguments_of(command, out="out"):
    return [*COMMANDS[command].split(), "--out", out]


class KilledError(BaseException):
    """In place of SIGKILL: nothing tidies up behind it."""


class Killer:
    """Stops the process that writes its `at`-th file, before or after the file gets its name."""

    def __init__(self, monkeypatch, at, after, error):
        self.count, self.at, self.after, self.error = 0, at, after, error
        self.replace = os.replace
        monkeypatch.setattr(os, "replace", self)
        if error is KilledError:
            unlink = Path.unlink

            def keep(path, missing_ok=False):
                if self.count <= at or not TEMPORARY.fullmatch(path.name):
                    unlink(path, missing_ok=missing_ok)

            monkeypatch.setattr(Path, "unlink", keep)

    def __call__(self, source, target):
        self.count += 1
        if self.count > self.at and not self.after:
            raise self.error
        self.replace(source, target)
        if self.count > self.at:
            raise self.error


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Commands at the cost of their files: `run` with a record for its solution, `paper` with a
    table for its figure."""
    record = Trajectory(np.arange(3.0), np.ones((3, 2)), Outcome.of("reached_end"))
    solution = record, types.SimpleNamespace(trajectory=record), None
    made = finding.Finding(claims=(), rows=[{"a": 1.0}])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(two_stage, "solved", lambda *args, **kwargs: solution)
    monkeypatch.setattr(two_stage, "compared", lambda *args: None)
    monkeypatch.setattr(two_stage, "summarise", lambda *args: {"outcome": "event", "seconds": {}})
    monkeypatch.setattr(two_stage, "draw", draw)
    monkeypatch.setattr(two_stage, "write_page", lambda *args: None)
    monkeypatch.setattr(registry, "FIGURES", {"degeneracy": ("", lambda lab: made)})


def draw(setting, run, prediction, folder, **kwargs):
    (folder / "figures").mkdir(exist_ok=True)
    for kind in ("png", "pdf"):
        storage.write_bytes(folder / "figures" / f"loss.{kind}", b"\0" * 10_000)


def results(folder):
    """What a command leaves, apart from how long it took; pictures by name alone."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            found[name] = without_seconds(storage.read_json(path))
        elif path.suffix == ".nc":
            dataset = storage.read_netcdf(path)
            found[name] = {k: v.values.tobytes() for k, v in dataset.variables.items()}
        elif path.is_file():
            found[name] = path.suffix in (".png", ".pdf", ".npz") or path.read_bytes()
    return found


def without_seconds(value):
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if k != "seconds"}
    return value


def check_whole(folder):
    """Every file that has its name can be read."""
    for path in folder.rglob("*"):
        if TEMPORARY.fullmatch(path.name):
            continue
        if path.suffix == ".json":
            storage.read_json(path)
        elif path.suffix == ".toml":
            storage.read_toml(path)
        elif path.suffix == ".nc":
            storage.read_netcdf(path)
        elif path.suffix == ".npz":
            storage.read_npz(path)
        elif path.suffix in (".png", ".pdf"):
            assert path.stat().st_size > 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, KilledError])
@pytest.mark.parametrize("command", COMMANDS)
def test_stopped_at_any_write_nothing_is_lost(command, error, quick, tmp_path, capsys):
    arguments, out = arguments_of(command), tmp_path / "out"
    assert main(arguments_of(command, "whole")) == 0
    whole, stops = results(tmp_path / "whole"), 0
    for at in range(100):
        with pytest.MonkeyPatch.context() as patch:
            killer = Killer(patch, at, bool(at % 2), error)
            try:
                code = main(arguments)
            except KilledError:
                code = 130
        if killer.count <= at:
            break
        stops += 1
        assert code == 130
        check_whole(out)
        left = [path for path in out.rglob("*") if TEMPORARY.fullmatch(path.name)]
        assert error is KilledError or not left
    assert code in (0, 2)  # 2: the summary stood before the last stop
    assert stops >= 4
    assert results(out) == whole
    assert not [path for path in out.rglob("*") if TEMPORARY.fullmatch(path.name)]


def started(arguments, cache):
    """The command as a process with a cache of compiled programs."""
    return subprocess.Popen(
        [sys.executable, "-m", "flowsim", "--cache", str(cache), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_interrupt_is_one_line_and_exit_130(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with started(arguments_of("run"), tmp_path / "cache") as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "out" / "config.toml").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "flowsim: interrupted\n")
    check_whole(tmp_path / "out")
    assert not storage.is_finished(tmp_path / "out")


def test_an_interrupt_while_the_package_is_imported_is_silent(tmp_path):
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    (tmp_path / "flowsim.py").write_text(slow)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import flowsim_program as p; "
    with subprocess.Popen(
        [sys.executable, "-c", f"{program} p.main()"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (-signal.SIGINT, "")


def touched(folder):
    """When something in a folder was last changed."""
    places = [folder, *folder.rglob("*")] if folder.exists() else []
    return max((path.stat().st_mtime for path in places if path.exists()), default=0.0)


@pytest.mark.skipif(KILLS == 0, reason="takes minutes: make fuzz")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("command", COMMANDS)
def test_signals_at_random_moments(command, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = arguments_of(command)
    random = np.random.default_rng([SEED, list(COMMANDS).index(command), int(kind)])
    for target in ("cold", "whole"):  # the second time its programs are in the cache
        begun = time.monotonic()
        with started(arguments_of(command, target), tmp_path / "cache") as process:
            process.communicate()
        assert process.returncode == 0
    seconds = time.monotonic() - begun
    for _ in range(KILLS):
        begun = time.time()
        with started(arguments, tmp_path / "cache") as process:
            while process.poll() is None and touched(tmp_path / "out") < begun:
                time.sleep(0.01)
            time.sleep(seconds * random.uniform(0.0, 0.5))
            process.send_signal(kind)
            _, errors = process.communicate(timeout=120)
        # −SIGINT: the work was done, and the interpreter on its way out no longer listens
        assert process.returncode in (0, 2, 130, -signal.SIGINT, -signal.SIGKILL)
        assert "Traceback" not in errors
        check_whole(tmp_path / "out")
    with started(arguments, tmp_path / "cache") as process:
        process.communicate()
    assert process.returncode in (0, 2)
    assert results(tmp_path / "out") == results(tmp_path / "whole")
