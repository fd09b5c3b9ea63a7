"""Predicted curves over simulated ones, and where the theory stops."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from flowsim import checks, observables
from flowsim.predict import Prediction
from flowsim.report.canvas import axes_or_new, legend_below, mark_untrusted
from flowsim.report.style import (
    DARK,
    GREY,
    SPARE,
    curve_style,
    figure_style,
    prediction_style,
    symbol,
)
from flowsim.trajectory import Trajectory

#: Before T this many units 1/κ are shown: earlier all curves lie on one another.
BEFORE = 6.0


def predictions(
    pairs: Sequence[tuple[Trajectory, Prediction]],
    quantity: str = "loss",
    *,
    labels: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Runs from several starts with the prediction of each over it, against κ(t − T).

    Look for: dashed lines that leave the solid ones the later the smaller the start's scale; for
    norms, a rise of W_Q and W_K that begins at its own time for each start.

    Args:
        pairs: simulated run and prediction, one pair a start.
        quantity: "loss", or a matrix, whose norm over its norm at the start is drawn.
        labels: one a pair; by default the scale ε of the start.
    """
    quantity = checks.choice("quantity", quantity, ("loss", "W_Q", "W_K", "W_V", "W_1", "W_2"))
    with figure_style():
        ax = axes_or_new(ax)
        for position, (run, prediction) in enumerate(pairs):
            label = _scale(run) if labels is None else labels[position]
            ax.plot(*_curve(run, prediction, quantity), label=label, **curve_style(label, position))
            style = prediction_style() | {"label": "predicted" if position == 0 else "_"}
            ax.plot(*_curve(prediction.trajectory, prediction, quantity), **style)
        untrusted = [run for run, _ in pairs if not bool(run.trusted)]
        if untrusted:
            mark_untrusted(ax, untrusted[0])
        _axes(ax, quantity)
        legend_below(ax)
    return ax


def departure(
    run: Trajectory, separated: Prediction, when: float | None = None, *, ax: Any = None
) -> Any:
    """‖W_Q‖ of a run and of the linear key-query flow  [CL 14], with the departure marked.

    Look for: one straight line (exponential growth) in stage 2, until the network saturates and
    the linear flow goes on.

    Args:
        separated: from `predict(..., separated=True)`.
        when: the departure, as `compare(run, separated).departure` gives it: the first time at
            which the two differ by ten per cent; None marks nothing.
    """
    with figure_style():
        ax = axes_or_new(ax)
        ax.plot(*_curve(run, separated, "W_Q"), color=SPARE[0][0], label="simulated")
        linear = prediction_style() | {"label": "linear key-query flow"}
        ahead = _curve(separated.trajectory, separated, "W_Q")
        ax.plot(*ahead, **linear)
        if when is not None:
            at = _position(np.asarray(when), separated)
            ax.axvline(at, color=GREY, linewidth=0.8, linestyle=":", gid="departure")
            ax.annotate(
                "departs by 10 %", (at, 0.98), xycoords=("data", "axes fraction"), xytext=(-3, 0),
                textcoords="offset points", ha="right", va="top", color=GREY, fontsize=6.5,
            )  # fmt: skip
        _axes(ax, "W_Q")
        largest = max(_curve(run, separated, "W_Q")[1], default=1.0)
        ax.set_ylim(0.5, 2 * min(30 * largest, max(ahead[1], default=1.0)))
        ax.set_title("Linear growth of $W_Q$", loc="left")
        mark_untrusted(ax, run)
        legend_below(ax)
    return ax


def _curve(run: Trajectory, prediction: Prediction, quantity: str) -> tuple[Any, Any]:
    function = eqx.Partial(_loss, prediction.net, prediction.task)
    values = observables.along(run, function if quantity == "loss" else observables.norms)
    curve = np.asarray(values[quantity], dtype=float)
    if quantity != "loss":
        curve = curve / curve[0]
    x = _position(np.asarray(run.times[: len(run)]), prediction)
    shown = x >= -BEFORE
    return x[shown], curve[shown]


def _loss(net: Any, task: Any, theta: Any) -> dict:
    return {"loss": net.loss(theta, task)}


def _position(times: np.ndarray, prediction: Prediction) -> Any:
    """κ(t − T); κt where there is no blow-up."""
    kappa, T = float(prediction.net.kappa(prediction.task)), float(prediction.blow_up.time)
    return kappa * (times - T if np.isfinite(T) else times)


def _scale(run: Trajectory) -> str:
    """The root mean square of the start's entries, ε."""
    leaves = [np.asarray(getattr(run.states, n))[0] for n in ("W_Q", "W_K", "W_V", "W_1", "W_2")]
    square = sum(np.sum(W**2) for W in leaves) / sum(W.size for W in leaves)
    return rf"$\varepsilon = {square**0.5:.2g}$"


def _axes(ax: Any, quantity: str) -> None:
    ax.axvline(0, color=DARK, linewidth=0.6, alpha=0.4)
    ax.set_xlabel(r"time from the blow-up, $\kappa\,(t - T^*)$")
    if quantity == "loss":
        ax.set_ylabel("loss $L$")
        return
    name = symbol(quantity).strip("$")
    ax.set_yscale("log")
    ax.set_ylabel(rf"$\|{name}\|_F\,/\,\|{name}(0)\|_F$")
