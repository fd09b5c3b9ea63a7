"""The lines that a prediction says of its limits; `test_prediction.py` has the hard cases."""

import jax.numpy as jnp
import pytest

from flowsim.predict.cautions import LARGEST_START, cautions
from flowsim.predict.key_query import Growth
from flowsim.predict.plateau import Plateau

REST = Plateau(True, 0.5, jnp.ones(2), 0.0)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"small": None, "onset": None}, ["no_blow_up"]),
        ({"small": 1.1 * LARGEST_START}, ["large_start"]),
        ({"onset": None}, ["no_onset"]),
        ({"plateau": Plateau(False), "growth": None}, ["no_plateau"]),
        ({"growth": Growth(0.0, 0.0, 4), "onset": None}, ["no_growth", "no_onset"]),
        ({"growth": Growth(1.0, 0.01, 2)}, ["tied"]),
    ],
)
def test_each_has_its_name(changes, names):
    plain = {"small": 0.01, "plateau": REST, "growth": Growth(1.0, 0.5, 1), "onset": 3.0}
    found = cautions(**(plain | changes))
    assert list(found) == names
    assert all("\n" not in line for line in found.values())
