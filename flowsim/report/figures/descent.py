"""Discrete descent against the flow: orders, distances, lags, batch sizes, sharpness."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flowsim.report.canvas import axes_or_new, legend_below
from flowsim.report.style import DARK, GREY, SPARE, curve_style, figure_style

Rows = Sequence[Mapping[str, Any]]
ERRORS = {"descent_error": "from the flow", "modified_error": "from the modified flow"}


def descent_orders(rows: Rows, *, ax: Any = None) -> Any:
    """Error of gradient descent at one time over the learning rate, both axes logarithmic.

    Look for: slope 1 against the flow, slope 2 against the flow on L + (η/4)‖∇L‖²; the thin
    lines have these slopes through the smallest rate.

    Args:
        rows: each with learning_rate, descent_error, modified_error.
    """
    with figure_style():
        ax = axes_or_new(ax)
        for position, (name, label) in enumerate(ERRORS.items()):
            eta, error = _points(rows, "learning_rate", name)
            style = curve_style(name, position) | {"markevery": None}
            ax.loglog(eta, error, label=label, **style)
            if eta.size:
                first = np.argmin(eta)
                line = error[first] * (eta / eta[first]) ** (position + 1)
                ax.loglog(eta, line, color=GREY, linewidth=0.6, gid=f"slope {position + 1}")
        _ticks_at(ax, [row["learning_rate"] for row in rows])
        ax.set_xlabel(r"learning rate $\eta$")
        ax.set_ylabel("relative distance")
        ax.set_title("Order of gradient descent", loc="left")
        legend_below(ax)
    return ax


def descent_distances(
    comparisons: Mapping[str, Any], *, ax: Any = None, blow_up_time: Any = None
) -> Any:
    """Relative parameter distance of descents from the flow over time.

    Look for: growth towards T*, where the lag of the descent shows as a peak, and how it falls
    with the learning rate.

    Args:
        comparisons: label → `DescentComparison`.
    """
    with figure_style():
        ax = axes_or_new(ax)
        unit = 1.0 if blow_up_time is None else float(blow_up_time)
        for position, (label, found) in enumerate(comparisons.items()):
            distance = np.where(found.parameter_distance > 0, found.parameter_distance, np.nan)
            ax.semilogy(found.times / unit, distance, label=label, **curve_style(label, position))
        _time_axis(ax, blow_up_time)
        ax.set_ylabel("relative distance")
        ax.set_title("Descent and flow at equal times", loc="left")
        legend_below(ax)
    return ax


def descent_lags(rows: Rows, *, ax: Any = None) -> Any:
    """Lag of the descent at the blow-up over the learning rate, with the lag law.

    Look for: points on the dashed line, which is no fit, the better the smaller the rate.

    Args:
        rows: each with learning_rate, lag_at_blow_up, predicted_lag.
    """
    with figure_style():
        ax = axes_or_new(ax)
        eta, law = _points(rows, "learning_rate", "predicted_lag")
        ax.loglog(eta, law, color=DARK, linestyle="--", label="lag law", zorder=3)
        eta, lag = _points(rows, "learning_rate", "lag_at_blow_up")
        ax.loglog(eta, lag, "o", color=SPARE[0][0], markersize=4, label="measured")
        _ticks_at(ax, [row["learning_rate"] for row in rows])
        ax.set_xlabel(r"learning rate $\eta$")
        ax.set_ylabel("lag at the blow-up (training time)")
        ax.set_title("Descent escapes later", loc="left")
        legend_below(ax)
    return ax


def batch_sizes(rows: Rows, *, ax: Any = None) -> Any:
    """Distance of SGD from the flow over the batch size, both axes logarithmic.

    Look for: slope −1/2 (thin line through the smallest batch) while the noise of the batches
    exceeds the error of full-batch descent.

    Args:
        rows: each with batch_size and distance.
    """
    with figure_style():
        ax = axes_or_new(ax)
        size, found = _points(rows, "batch_size", "distance")
        ax.loglog(size, found, "o-", color=SPARE[0][0], label="SGD, root mean square")
        if size.size:
            line = found[0] * (size / size[0]) ** -0.5
            ax.loglog(size, line, color=GREY, linewidth=0.6, label="slope −1/2")
        _ticks_at(ax, size)
        ax.set_xlabel("batch size $B$")
        ax.set_ylabel("relative distance from the flow")
        ax.set_title("Noise of mini-batches", loc="left")
        legend_below(ax)
    return ax


def sharpness(
    times: Any,
    values: Any,
    learning_rates: Sequence[float],
    *,
    ax: Any = None,
    blow_up_time: Any = None,
) -> Any:
    """Largest Hessian eigenvalue along a run, with 2/η drawn for each learning rate.

    Look for: where the curve passes 2/η gradient descent stops following the flow.
    """
    with figure_style():
        ax = axes_or_new(ax)
        unit = 1.0 if blow_up_time is None else float(blow_up_time)
        values = np.asarray(values, dtype=float)
        style = {"color": DARK}
        positive = np.where(values > 0, values, np.nan)
        ax.semilogy(np.asarray(times) / unit, positive, label=r"$\lambda_{max}$", **style)
        for position, eta in enumerate(learning_rates):
            color = SPARE[position % len(SPARE)][0]
            label = rf"$2/\eta$, $\eta$ = {eta:.3g}"
            ax.axhline(2 / eta, color=color, linestyle=":", label=label, gid="2/eta")
        _time_axis(ax, blow_up_time)
        ax.set_ylabel(r"sharpness $\lambda_{max}$")
        ax.set_title("Sharpness along the flow", loc="left")
        legend_below(ax)
    return ax


def _points(rows: Rows, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that are known, with x increasing."""
    known = sorted((row[x], row[y]) for row in rows if row.get(y) is not None)
    points = np.asarray(known, dtype=float).reshape(-1, 2)
    return points[:, 0], points[:, 1]


def _ticks_at(ax: Any, values: Any) -> None:
    """Ticks of a logarithmic x axis at the values themselves, if they are few."""
    values = np.unique(np.asarray(values, dtype=float))
    if 0 < values.size <= 8:
        ax.set_xticks(values, [f"{x:.3g}" for x in values])
        ax.set_xticks([], minor=True)


def _time_axis(ax: Any, blow_up_time: Any) -> None:
    if blow_up_time is None:
        ax.set_xlabel("time $t$ (training time)")
        return
    ax.axvline(1.0, color=DARK, linewidth=0.7, gid="blow_up")
    ax.set_xlabel("time $t/T^*$")
