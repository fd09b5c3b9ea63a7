"""Figures of ensembles: survival, sign of E(0), width, predicted against simulated."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowsim.ensemble.members import Members
from flowsim.ensemble.summary import quantile, subset, survival
from flowsim.report.canvas import axes_or_new, legend_below
from flowsim.report.style import SPARE, curve_style, figure_style, prediction_style


def survival_curve(members: Members, *, ax: Any = None, label: str = "", color: int = 0) -> Any:
    """P(T* > t) with its 95 % band; members without a verdict are censored.

    The axis starts shortly before the first blow-up.

    Look for: no blow-up before some time, then a steep fall, the steeper the wider the network.
    """
    times, values, band = survival(members)
    with figure_style():
        ax = axes_or_new(ax)
        if times.size:
            before = max(0.0, times[0] - (times[-1] - times[0]) / 4)  # where all are still there
            x, y = np.append(before, times), np.append(1, values)
            (line,) = ax.step(x, y, where="post", label=label or None, **curve_style(label, color))
            band_style = {"color": line.get_color(), "alpha": 0.25, "linewidth": 0}
            ax.fill_between(times, *band, step="post", **band_style)
        ax.set_xlabel(r"$t$ (unit rate)")
        ax.set_ylabel(r"$P(T^* > t)$")
        ax.set_ylim(0, 1.02)
        count = f"{len(members)} starts"
        left = f", {members.undecided} undecided" if members.undecided else ""
        ax.set_title(count + left, loc="left")
    return ax


def energy_sign(members: Members, *, ax: Any = None) -> Any:
    """Survival of the members that start with E > 0 and of those with E ≤ 0.

    Look for: two curves, one behind the other: with E ≤ 0 the flow turns round before it grows.
    """
    with figure_style():
        ax = axes_or_new(ax)
        parts = ((r"$E(0) > 0$", members.energy > 0), (r"$E(0) \leq 0$", members.energy <= 0))
        for color, (label, chosen) in enumerate(parts):
            part = subset(members, chosen)
            if len(part):
                survival_curve(part, ax=ax, label=f"{label}: {len(part)}", color=color)
        ax.set_title("Sign of the energy at the start", loc="left")
        legend_below(ax)
    return ax


def width_scaling(
    widths: Sequence[int], ensembles: Sequence[Members], limit: float, *, ax: Any = None
) -> Any:
    """Median and middle half of T* √h against h, with the mean-field limit dashed.

    Look for: medians that fall to the limit and bars that shrink as the width grows.
    """
    with figure_style():
        ax = axes_or_new(ax)
        quartiles = [[quantile(m, p)[0] for p in (0.25, 0.5, 0.75)] for m in ensembles]
        low, middle, high = np.transpose(quartiles) * np.sqrt(widths)
        bars = [middle - low, high - middle]
        ax.errorbar(
            widths, middle, bars, fmt="o", color=SPARE[0][0], linewidth=0.9, capsize=2,
            label="median, middle half",
        )  # fmt: skip
        ax.axhline(limit, label="mean-field limit", **prediction_style())
        ax.set_xscale("log")
        ax.set_xlabel("$h$")
        ax.set_ylabel(r"$T^* \sqrt{h}$")
        legend_below(ax)
    return ax


def predicted_against_simulated(
    predicted: np.ndarray,
    simulated: np.ndarray,
    trusted: np.ndarray,
    tolerance: float,
    *,
    ax: Any = None,
) -> Any:
    """Relative difference of simulated and predicted T* for every member; the tolerance dashed.

    Look for: all points below the dashed line, none of an untrusted run.
    """
    with figure_style():
        ax = axes_or_new(ax)
        error = np.abs(simulated / predicted - 1)
        known = np.isfinite(error)
        near = error <= tolerance
        for name, chosen, (color, marker) in (
            ("within", known & trusted & near, SPARE[0]),
            ("beyond", known & trusted & ~near, SPARE[1]),
            ("untrusted", known & ~trusted, SPARE[2]),
        ):
            label = f"{name}: {int(chosen.sum())}"
            if chosen.any():
                ax.plot(predicted[chosen], error[chosen], marker, color=color, label=label)
        ax.axhline(tolerance, label="tolerance", **prediction_style())
        ax.set_yscale("log")
        ax.set_xlabel("predicted $T$ (training time)")
        ax.set_ylabel("relative difference")
        missing = int((~known).sum())
        ax.set_title(f"{missing} without an escape" if missing else "", loc="left")
        legend_below(ax)
    return ax
