"""Thin lines at the events of a run, with labels above the axes that do not cover one another."""

import itertools
from collections.abc import Sequence
from typing import Any

from flowsim.report.style import DARK, GREY
from flowsim.report.time_axis import TimeAxis

LABELS = {
    "blow_up": "$T^*$",
    "escape": "escape",
    "plateau": "plateau",
    "onset": "onset",
    "onset_norm": r"$\|W_Q\|\times 2$",
}
WIDTHS = {"$T^*$": 2.2, r"$\|W_Q\|\times 2$": 7.0}  # in letters, where not len(label)
SHOWN = ("escape", "plateau", "onset")
LETTER = 0.62  # width over font size
SPACE = 0.8  # in letters, on either side of a label
COMPRESSED = "compressed"
ALIGNMENTS = ("center", "right", "left")


def event_marks(ax: Any, run: Any, axis: TimeAxis, shown: Sequence[str] = SHOWN) -> int:
    """Draw the lines: T* solid, others dotted. Returns the number of rows that labels take.

    Over the compressed stretch of the axis stands that it is that.
    """
    marks = _marks(run, axis, shown)
    for name, position in marks:
        if name == COMPRESSED:
            continue
        line = {"color": DARK, "linestyle": "-"} if name == "blow_up" else {"linestyle": ":"}
        ax.axvline(position, **({"color": GREY} | line), linewidth=0.7, zorder=0.5, gid=name)
    size = 6.0
    letter = LETTER * size / 72 / _width_in_inches(ax)
    texts = [LABELS.get(name, name) for name, _ in marks]
    widths = [letter * (WIDTHS.get(text, len(text)) + 2 * SPACE) for text in texts]
    places = arrange([axis.share(position) for _, position in marks], widths)
    for (name, position), text, (alignment, row) in zip(marks, texts, places, strict=True):
        shift = {"center": 0.0, "right": 2.0, "left": -2.0}[alignment]
        note = name == COMPRESSED
        ax.annotate(
            text, (position, 1), xycoords=("data", "axes fraction"), fontsize=size,
            xytext=(-shift, 1.5 + 1.25 * size * row), textcoords="offset points",
            ha=alignment, va="bottom", annotation_clip=False, color=GREY if note else DARK,
            style="italic" if note else "normal", gid=COMPRESSED if note else "event label",
        )  # fmt: skip
    return 1 + max((row for _, row in places), default=-1)


def arrange(centres: list[float], widths: list[float]) -> list[tuple[str, int]]:
    """(alignment, row) for every label, without overlaps and with few rows.

    Args:
        centres: positions of the lines, as shares of the axis' length, from left to right.
        widths: widths of the labels in the same unit.
    """
    options = itertools.product(ALIGNMENTS, repeat=len(centres))
    found = [_rows(centres, widths, alignments) for alignments in options]
    return min(found, key=lambda item: item[0])[1]


def _rows(centres: list[float], widths: list[float], alignments: tuple[str, ...]) -> tuple:
    """Cost and places: each label goes to the lowest row where it is free."""
    taken: list[list[tuple[float, float]]] = []
    places, cost = [], 0.0
    for centre, width, alignment in zip(centres, widths, alignments, strict=True):
        left = centre - width * {"center": 0.5, "right": 1.0, "left": 0.0}[alignment]
        span = (left, left + width)
        free = [all(span[1] <= a or span[0] >= b for a, b in row) for row in taken]
        row = free.index(True) if True in free else len(taken)
        if row == len(taken):
            taken.append([])
        taken[row].append(span)
        places.append((alignment, row))
        outside = max(0.0, -span[0]) + max(0.0, span[1] - 1)
        cost += 3 * row + (alignment != "center") + 100 * outside
    return cost, places


def _marks(run: Any, axis: TimeAxis, shown: Sequence[str]) -> list[tuple[str, float]]:
    """Names and positions inside the axis, from left to right."""
    times = {name: float(run.event_times[name]) for name in shown if name in run.event_times}
    marks = [(name, time / axis.unit) for name, time in times.items()]
    if axis.has_blow_up:
        marks.append(("blow_up", 1.0))
    if axis.compressed is not None:
        marks.append((COMPRESSED, axis.compressed))
    inside = [mark for mark in marks if axis.start <= mark[1] <= axis.end]
    return sorted(inside, key=lambda mark: mark[1])


def _width_in_inches(ax: Any) -> float:
    """Width of the axes; constrained layout moves it later, by labels of about this size."""
    figure = ax.get_figure(root=False)
    width = figure.bbox.width / figure.dpi
    place = ax.get_subplotspec()
    if place is None:
        return ax.get_position().width * width
    share = (place.colspan.stop - place.colspan.start) / place.get_gridspec().ncols
    return width * share - 0.6
