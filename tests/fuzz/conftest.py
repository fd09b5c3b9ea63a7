"""Valid inputs to start from, and commands that stop where they would begin to compute."""

import jax
import numpy as np
import pytest
from computing import stop_at_computing

import flowsim as fs
from flowsim import storage


@pytest.fixture
def only_validated(monkeypatch):
    """Commands raise `ComputingError` in place of their computation."""
    stop_at_computing(monkeypatch)


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """A folder, the current one, with one valid file of each kind."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    task = fs.tasks.gaussian(samples=6, length=3, width=3, key=jax.random.key(0))
    weights = {"W_v": rng.normal(size=2), "W_1": rng.normal(size=(2, 2)), "W_2": rng.normal(size=2)}
    storage.write_npz("task.npz", X=task.X, y=task.y)
    storage.write_npz("w.npz", **weights)
    storage.write_json("w.json", weights)
    storage.write_text("run.toml", 'task = "task.npz"\nscale = 1e-2\nseed = 3\nrtol = 1e-6\n')
    storage.write_text("a.txt", "The quick brown fox jumps over the lazy dog. τ ≠ t\n" * 5)
    run = fs.Trajectory(
        np.arange(3.0),
        {"a": np.ones((3, 2)), "b": np.arange(3.0)},
        fs.Outcome.of("event"),
        event_times={"e": 1.5},
        crossings={"e": np.array([1.5])},
        stats={"accepted": 2},
    )
    run.save("run.nc")
    return tmp_path
