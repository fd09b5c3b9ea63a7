"""A small task and rectangular weights of order one."""

import jax
import numpy as np
import pytest

from flowsim.network import Parameters, gaussian_parameters
from flowsim.tasks import Task


@pytest.fixture
def task() -> Task:
    rng = np.random.default_rng(0)
    return Task(rng.normal(size=(9, 4, 5)), np.where(rng.random(9) < 0.5, -1.0, 1.0))


@pytest.fixture
def theta() -> Parameters:
    widths = {"key_width": 3, "value_width": 4, "hidden_width": 6}
    return gaussian_parameters(jax.random.key(1), 5, scale=0.7, **widths)
