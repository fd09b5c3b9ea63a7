"""A small run with both stages drawn by hand: closed forms in time, so values are known."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.network import OneLayerTransformer, gaussian_parameters
from flowsim.outcome import Outcome
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

BLOW_UP = 100.0
TIMES = np.concatenate([np.linspace(0, 90, 10), np.linspace(91, 120, 15)])


def growth(times):
    """Outer matrices saturate at T*, attention grows from there on: size and relative rate."""
    outer = 1 / (1 + np.exp(-(times - BLOW_UP) / 4)) + 1e-2
    attention = 1e-2 + 1e-2 * np.exp((times - 105) / 3)
    return {"W_Q": attention, "W_K": attention, "W_V": outer, "W_1": outer, "W_2": outer}


@pytest.fixture(scope="session")
def run():
    random = np.random.default_rng(0)
    shapes = {"W_Q": (4, 4), "W_K": (4, 4), "W_V": (4, 4), "W_1": (4, 4), "W_2": (4,)}
    sizes, later = growth(TIMES), growth(TIMES + 1e-5)
    start = {name: random.standard_normal(shape) for name, shape in shapes.items()}

    def along_time(factors):
        return [jnp.asarray(np.multiply.outer(factors[k], start[k])) for k in shapes]

    structure = jax.tree.structure(gaussian_parameters(jax.random.key(0), 4, scale=1.0))
    speed = {name: (later[name] - sizes[name]) / 1e-5 for name in sizes}
    return Trajectory(
        TIMES,
        jax.tree.unflatten(structure, along_time(sizes)),
        Outcome.of("reached_end"),
        rates=jax.tree.unflatten(structure, along_time(speed)),
        event_times={"onset": 98.0, "escape": 99.5, "plateau": 103.0},
    )


@pytest.fixture(scope="session")
def network():
    return OneLayerTransformer()


@pytest.fixture(scope="session")
def task():
    random = np.random.default_rng(1)
    return Task(random.standard_normal((6, 3, 4)), np.array([1, -1, 1, 1, -1, -1]))


@pytest.fixture(autouse=True)
def nothing_global(monkeypatch):
    """pyplot cannot be imported, and no setting of matplotlib changes."""
    import matplotlib

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    before = matplotlib.rcParams.copy()
    yield
    assert matplotlib.rcParams.copy() == before
