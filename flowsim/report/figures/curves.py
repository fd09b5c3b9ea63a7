"""Curves over time: what every figure with a time axis has in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from flowsim.observables import along
from flowsim.report.canvas import axes_or_new, legend_below, mark_untrusted
from flowsim.report.event_marks import SHOWN, event_marks
from flowsim.report.style import curve_style, figure_style, prediction_style, symbol
from flowsim.report.time_axis import TimeAxis
from flowsim.trajectory import Trajectory

Values = Mapping[str, Any]


def measured(run: Trajectory, function: Callable, values: Values | None) -> Values:
    """The curves given, or function(state) at the saved times."""
    return along(run, function) if values is None else values


def in_order(values: Values, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """The curves as arrays, in the order of the names (those that are there)."""
    chosen = list(values) if names is None else [name for name in names if name in values]
    return {name: np.asarray(values[name], dtype=float) for name in chosen}


def draw(
    run: Trajectory,
    values: Values,
    *,
    ax: Any,
    ylabel: str,
    title: str = "",
    xlabel: str | None = None,
    names: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    log: bool = False,
    blow_up_time: Any = None,
    predicted: Trajectory | None = None,
    predicted_values: Values | None = None,
    events: Sequence[str] = SHOWN,
    legend: bool = True,
) -> Any:
    """One panel: curves, predictions over them, events, time axis, legend below.

    Args:
        values: name → (T,) at the saved times of `run`.
        names: which of them, in which order; labels: other words for them in the legend.
        predicted, predicted_values: a second run and its curves, dashed black, within the
            times of the first.
    """
    with figure_style():
        ax = axes_or_new(ax)
        axis = TimeAxis.of(run, blow_up_time)
        if log:
            ax.set_yscale("log")
        ax.set_ylabel(ylabel)
        axis.apply(ax)
        if xlabel is not None:
            ax.set_xlabel(xlabel)
        curves = in_order(values, names)
        _lines(ax, axis.positions(run.times[: len(run)]), curves, labels or {})
        if predicted is not None and predicted_values is not None:
            second = in_order(predicted_values, list(curves))
            if log:  # an exact zero, such as the rate of W_Q in stage 1, has no place on the axis
                second = {name: np.where(y > 0, y, np.nan) for name, y in second.items()}
            _predictions(ax, axis, axis.positions(predicted.times[: len(predicted)]), second)
        rows = event_marks(ax, run, axis, events)
        ax.set_title(title, loc="left", pad=3 + 7.5 * rows)
        mark_untrusted(ax, run)
        if legend:
            legend_below(ax)
    return ax


def _lines(ax: Any, x: np.ndarray, curves: Values, labels: Mapping[str, str]) -> None:
    for position, (name, y) in enumerate(curves.items()):
        ax.plot(x, y, label=labels.get(name, symbol(name)), **curve_style(name, position))


def _predictions(ax: Any, axis: TimeAxis, x: np.ndarray, curves: Values) -> None:
    """As far as the run goes: what lies beyond would stretch the panel's height."""
    inside = (x >= axis.start) & (x <= axis.end)
    for position, y in enumerate(curves.values()):
        label = "predicted" if position == 0 else "_"
        ax.plot(x[inside], y[inside], label=label, **prediction_style())
