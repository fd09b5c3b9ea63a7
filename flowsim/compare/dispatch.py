"""`compare`: one function for each kind of record that a run is compared with."""

from typing import Any

from flowsim import checks
from flowsim.compare.descent import DescentComparison, compare_descent
from flowsim.compare.prediction import PredictionComparison, compare_prediction
from flowsim.predict import Prediction
from flowsim.trajectory import Trajectory


def compare(
    run: Any, other: Any, *, net: Any = None, task: Any = None
) -> PredictionComparison | DescentComparison:
    """A flow beside what the theory predicts of it, or beside a descent from the same start.

    Args:
        run: from `simulate` or `integrate`.
        other: a `Prediction`, or the `Trajectory` of a descent.
        net, task: for a descent that was not made by `train`: where outputs and losses are taken.

    Raises:
        TypeError: records of other kinds.
        ValueError: records of different starts, shapes or clocks.
    """
    if not isinstance(run, Trajectory):
        raise TypeError(f"run must be a Trajectory; got {checks.shown(run)}")
    if isinstance(other, Prediction):
        return compare_prediction(run, other)
    if isinstance(other, Trajectory):
        return compare_descent(run, other, net=net, task=task)
    raise TypeError(f"other must be a Prediction or a Trajectory; got {checks.shown(other)}")
