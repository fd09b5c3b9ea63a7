"""A run that breaks a check says which one and by how much."""

import math

import numpy as np
import pytest

from flowsim.experiments.summary import untrusted_because
from flowsim.outcome import Outcome
from flowsim.trajectory import Trajectory


def run(outcome="reached_end", drift=1e-9, energy=1e-9, trusted=False):
    stats = {"conserved_drift": drift, "energy_drift": energy}
    state = np.zeros((1, 1))
    return Trajectory([0.0], state, Outcome.of(outcome), trusted=trusted, stats=stats)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (run(trusted=True), []),
        (run("too_many_steps"), ["it ended as too_many_steps"]),
        (
            run(drift=2e-4),
            ["its conserved matrices drifted by 0.0002, more than 1000 tolerances, 1e-05"],
        ),
        (
            run("non_finite", energy=math.nan),
            [
                "it ended as non_finite",
                "the fall of its loss is off the integral of ‖∇L‖² by nan, more than 1000 "
                "tolerances, 1e-05",
            ],
        ),
    ],
)
def test_reasons_name_the_check_and_the_size(found, lines):
    assert untrusted_because(found, 1e-8) == lines
