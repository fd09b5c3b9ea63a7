"""The time axis t/T*: stretched around the blow-up, where both stages of small weights meet.

T* grows like 1/ε and stage 2 lasts about ln(1/ε), so on an even axis all that follows the blow-up
shrinks to a line as ε → 0. Where the run ends before 2 T*, the axis therefore changes its scale
shortly before T*: the slow part before is compressed to a third of the width, on a grey ground,
and the axis is broken where its scale changes. Kinks of curves there are the axis', not the run's.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowsim import checks
from flowsim.report.style import DARK, PALE

SLOW_SHARE = 0.3  # of the width, for the stretch before the change of scale
CLOCK_LABELS = {
    "training": "time $t$ (training time)",
    "rescaled": r"time $\bar t$ (rescaled time)",
    "steps": "optimiser steps",
}


@dataclass(frozen=True)
class TimeAxis:
    """Times in units of T*, or as they are where no T* is given.

    Attributes:
        unit: T* on the run's clock, or 1.
        start, end: the run's ends, in that unit.
        change: where the scale changes, in that unit, or None for an even axis.
        has_blow_up: whether T* is known (then it lies at 1).
        label: what stands below the axis.
    """

    unit: float
    start: float
    end: float
    change: float | None
    has_blow_up: bool
    label: str

    @property
    def compressed(self) -> float | None:
        """The middle of the compressed stretch; None on an even axis."""
        return None if self.change is None else (self.start + self.change) / 2

    @classmethod
    def of(cls, run: Any, blow_up_time: Any = None) -> "TimeAxis":
        """The axis of a run; `blow_up_time` is the predicted T* on the run's clock."""
        first, last = float(run.times[0]), float(run.times[len(run) - 1])
        if blow_up_time is None:
            return cls(1.0, first, last, None, False, CLOCK_LABELS[run.clock])
        unit = checks.positive("blow_up_time", blow_up_time)
        start, end = first / unit, last / unit
        change = 1 - 0.4 * (end - 1) if 1 < end < 2 and start < 0.5 else None
        label = f"time $t/T^*$  ($T^*$ = {_figures(unit)} {_unit_of(run.clock)})"
        return cls(unit, start, end, change, True, label)

    def positions(self, times: Any) -> np.ndarray:
        """Times of the run's clock as positions on the axis."""
        return np.asarray(times, dtype=float) / self.unit

    def share(self, position: float) -> float:
        """How far along the axis a position lies, from 0 to 1."""
        forward, _ = self._functions()
        low, high, at = forward(np.array([self.start, self.end, position]))
        return float((at - low) / (high - low)) if high > low else 0.0

    def apply(self, ax: Any) -> None:
        """Scale, limits, ticks, label and the grey ground of the slow part."""
        if self.change is not None:
            ax.set_xscale("function", functions=self._functions())
            ax.axvspan(self.start, self.change, color=PALE, linewidth=0, zorder=-5)
            _break_mark(ax, self.change)
            ticks = self._ticks()
            decimals = max(0, -math.floor(math.log10(ticks[-1] - ticks[-2]) + 1e-9))
            ax.set_xticks(ticks, [_written(tick, decimals) for tick in ticks])
        if self.end > self.start:
            ax.set_xlim(self.start, self.end)
        ax.set_xlabel(self.label)

    def _ticks(self) -> list[float]:
        """Two in the slow part, about four evenly spaced ones with 1 among them after it."""
        assert self.change is not None
        step = _round_step((self.end - self.change) / 4)
        first = math.ceil((self.change - 1) / step + 0.2)
        last = math.floor((self.end - 1) / step + 1e-9)
        slow = [tick for tick in (0.0, 0.5) if tick >= self.start]
        return slow + [1 + k * step for k in range(first, last + 1)]

    def _functions(self) -> tuple[Callable, Callable]:
        """Position to drawn length (piecewise linear) and back."""
        if self.change is None:
            return np.asarray, np.asarray
        place = [self.start, self.change, self.end]
        length = [0.0, SLOW_SHARE, 1.0]
        return _through(place, length), _through(length, place)


def _through(x: list[float], y: list[float]) -> Callable:
    """The piecewise linear map through three points, continued to both sides."""
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])

    def apply(values: Any) -> np.ndarray:
        offset = np.asarray(values, dtype=float) - x[1]
        return y[1] + np.where(offset < 0, left, right) * offset

    return apply


def _break_mark(ax: Any, position: float) -> None:
    """Two strokes across the axis, which they interrupt."""
    gap = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
    ax.text(
        position, 0, "//", transform=ax.get_xaxis_transform(), ha="center", va="center",
        color=DARK, fontsize=6, bbox=gap, zorder=6, gid="break",
    )  # fmt: skip


def _unit_of(clock: str) -> str:
    return clock if clock == "steps" else f"{clock} time"


def _round_step(rough: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * k for k in (1, 2, 5, 10) if power * k >= rough * (1 - 1e-9))


def _written(tick: float, decimals: int) -> str:
    return f"{tick:g}" if tick in (0.0, 0.5, 1.0) else f"{tick:.{max(1, decimals)}f}"


def _figures(value: float) -> str:
    """Four figures, with a power of ten in mathematical type where one is needed."""
    mantissa, _, power = f"{value:.4g}".partition("e")
    return rf"${mantissa}\times 10^{{{int(power)}}}$" if power else mantissa
