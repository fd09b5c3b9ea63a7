"""Shards: resumed, never recomputed, never mixed, damaged ones computed again."""

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from flowsim.ensemble import shards
from flowsim.ensemble.members import Members
from flowsim.ensemble.running import ensemble, open_ensemble

COUNT, SIZE = 23, 5


@dataclasses.dataclass
class Counted:
    """A source whose members are known and whose calls are counted."""

    name: str = "counted"
    pause: float = 0.0
    block: int = 1
    numbers: int = 1
    calls: list = dataclasses.field(default_factory=list)

    @property
    def identity(self):
        return {"source": self.name}

    def solve(self, first, stop, room=0):
        self.calls.append(first)
        time.sleep(self.pause)
        i = np.arange(first, stop, dtype=float)
        zeros = np.zeros(i.size)
        return Members(
            time=np.sqrt(i + 1),
            lower=np.sqrt(i + 1),
            verdict=zeros.astype(np.int8),
            energy=i,
            steps=zeros.astype(np.int32),
        )


def run(folder, source=None):
    source = source or Counted()
    with open_ensemble(folder, source, COUNT, SIZE):
        return ensemble(source, COUNT, folder=folder, size=SIZE), source


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in shards.FIELDS)


@pytest.fixture
def finished(tmp_path):
    run(tmp_path)
    return tmp_path


def test_in_memory_and_in_a_folder_are_the_same(finished):
    stored, source = run(finished)
    assert source.calls == []
    assert same(stored, ensemble(Counted(), COUNT, size=SIZE))
    assert same(stored, ensemble(Counted(), COUNT))
    assert len(stored) == COUNT


def test_a_missing_shard_alone_is_computed(finished):
    whole, _ = run(finished)
    shards.shard_path(finished, 2).unlink()
    again, source = run(finished)
    assert source.calls == [2 * SIZE]
    assert same(whole, again)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other", "foreign"])
def test_a_damaged_shard_is_computed_again_and_said_so(finished, damage):
    path = shards.shard_path(finished, 1)
    data = path.read_bytes()
    if damage == "flip":
        middle = data.index(np.float64(np.sqrt(SIZE + 1)).tobytes())
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "other":
        path.write_bytes(shards.shard_path(finished, 2).read_bytes())
    else:
        members = Counted().solve(SIZE, 2 * SIZE)
        shards.write_shard(finished, 1, members, {"source": "another"})
    with pytest.warns(UserWarning, match="shard 1 is computed again"):
        again, source = run(finished)
    assert source.calls == [SIZE]
    assert same(again, ensemble(Counted(), COUNT))


def test_another_configuration_is_refused_with_the_difference(finished):
    before = {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()}
    with pytest.raises(ValueError, match="source 'counted' there, 'else' here"):
        run(finished, Counted("else"))
    with (
        pytest.raises(ValueError, match="count 23 there, 22 here"),
        open_ensemble(finished, Counted(), COUNT - 1, SIZE),
    ):
        pass
    assert before == {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()}


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(ValueError, match="out must be a new folder"):
        run(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="out must"):
        run(tmp_path / "file")


def test_a_full_disk_is_one_error_and_loses_nothing(tmp_path, monkeypatch):
    real = np.savez
    left = [2]

    def full(*args, **kwargs):
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        return real(*args, **kwargs)

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(ValueError, match=r"out must be a place that can be written \(No space"):
        run(tmp_path)
    assert not list(tmp_path.rglob("*.partial*"))
    monkeypatch.undo()
    again, source = run(tmp_path)
    assert source.calls == [2 * SIZE, 3 * SIZE, 4 * SIZE]
    assert same(again, ensemble(Counted(), COUNT))


SLOW = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_shards import Counted, run
print("ready", flush=True)
run(Path(sys.argv[1]), Counted(pause=0.3))
"""


def test_a_killed_run_loses_one_shard_at_most(tmp_path):
    here = str(Path(__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, str(tmp_path), here], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 60
        while not shards.shard_path(tmp_path, 1).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    (tmp_path / "shards" / ".flowsim-0123456789abcdef.partial.npz").write_bytes(b"half")
    there = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "shards").glob("*.npz")}
    assert len(there) >= 2
    again, source = run(tmp_path)
    done = sorted(int(Path(name).stem) for name in there if not name.startswith("."))
    assert source.calls == [SIZE * i for i in range(5) if i not in done]
    assert same(again, ensemble(Counted(), COUNT))
    assert not list(tmp_path.rglob("*.partial*"))


def test_processes_share_the_shards_and_the_last_one_gathers(tmp_path, monkeypatch):
    import jax

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    second, source = run(tmp_path)
    assert second is None
    assert source.calls == [SIZE, 3 * SIZE]
    monkeypatch.setattr(jax, "process_index", lambda: 0)
    first, source = run(tmp_path)
    assert source.calls == [0, 2 * SIZE, 4 * SIZE]
    assert same(first, ensemble(Counted(), COUNT))


def test_two_runs_that_know_nothing_of_one_another_do_not_share_a_folder(tmp_path):
    with (
        open_ensemble(tmp_path, Counted(), COUNT, SIZE),
        pytest.raises(ValueError, match="out must be a folder in which no other run is at work"),
    ):
        run(tmp_path)


def test_a_lost_process_leaves_the_shards_of_others_valid(tmp_path, monkeypatch):
    import jax

    monkeypatch.setattr(jax, "process_count", lambda: 3)
    monkeypatch.setattr(jax, "process_index", lambda: 0)
    assert run(tmp_path)[0] is None
    monkeypatch.undo()
    again, source = run(tmp_path)
    assert source.calls == [SIZE, 2 * SIZE, 4 * SIZE]
    assert same(again, ensemble(Counted(), COUNT))
