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
#: In points: of the labels' type, from the axes to the lowest label, from row to row.
SIZE, FOOT, ROW = 6.0, 1.5, 7.5
COMPRESSED = "compressed"
ALIGNMENTS = ("center", "right", "left")


def event_marks(ax: Any, run: Any, axis: TimeAxis, shown: Sequence[str] = SHOWN) -> int:
    """Draw the lines: T* solid, others dotted. Returns the number of rows that labels take.

    Each line goes on above the axes up to its label. Over the compressed stretch of the axis
    stands that it is that.
    """
    marks = _marks(run, axis, shown)
    letter = LETTER * SIZE / 72 / _width_in_inches(ax)
    texts = [LABELS.get(name, name) for name, _ in marks]
    widths = [letter * (WIDTHS.get(text, len(text)) + 2 * SPACE) for text in texts]
    places = arrange([axis.share(position) for _, position in marks], widths)
    for (name, position), text, place in zip(marks, texts, places, strict=True):
        _label(ax, position, text, *place, note=name == COMPRESSED)
        if name != COMPRESSED:
            _line(ax, name, position, *place)
    return 1 + max((row for _, row in places), default=-1)


def _label(ax: Any, position: float, text: str, alignment: str, row: int, *, note: bool) -> None:
    shift = {"center": 0.0, "right": -2.0, "left": 2.0}[alignment]
    ax.annotate(
        text, (position, 1), xycoords=("data", "axes fraction"), fontsize=SIZE,
        xytext=(shift, FOOT + ROW * row), textcoords="offset points",
        ha=alignment, va="bottom", annotation_clip=False, color=GREY if note else DARK,
        style="italic" if note else "normal", gid=COMPRESSED if note else "event label",
    )  # fmt: skip


def _line(ax: Any, name: str, position: float, alignment: str, row: int) -> None:
    """Through the axes, and above them to the foot of a centred label, or beside another."""
    look: dict[str, Any] = {"color": GREY, "linestyle": ":", "linewidth": 0.7, "zorder": 0.5}
    if name == "blow_up":
        look |= {"color": DARK, "linestyle": "-"}
    ax.axvline(position, **look, gid=name)
    top = FOOT + ROW * row + (0.0 if alignment == "center" else SIZE)
    ax.annotate(
        "", (position, 1), xycoords=("data", "axes fraction"), xytext=(0, top),
        textcoords="offset points", annotation_clip=False, gid="stem",
        arrowprops={"arrowstyle": "-", "shrinkA": 0, "shrinkB": 0} | look,
    )  # fmt: skip


def arrange(centres: list[float], widths: list[float]) -> list[tuple[str, int]]:
    """(alignment, row) for every label, without overlaps, with few rows, and where it can be had
    without a line that crosses another's label.

    Args:
        centres: positions of the lines, as shares of the axis' length, from left to right.
        widths: widths of the labels in the same unit.
    """
    options = itertools.product(ALIGNMENTS, repeat=len(centres))
    found = [
        _rows(centres, widths, alignments, order) for alignments in options for order in (1, -1)
    ]
    return min(found, key=lambda item: item[0])[1]


def _rows(
    centres: list[float], widths: list[float], alignments: tuple[str, ...], order: int
) -> tuple[float, list[tuple[str, int]]]:
    """Cost and places: each label, from the left or (order −1) from the right, goes to the lowest
    row where it is free."""
    shares = {"center": 0.5, "right": 1.0, "left": 0.0}
    lefts = [c - w * shares[a] for c, w, a in zip(centres, widths, alignments, strict=True)]
    spans = [(left, left + width) for left, width in zip(lefts, widths, strict=True)]
    taken: list[list[tuple[float, float]]] = []
    rows = [0] * len(spans)
    for i in range(len(spans))[::order]:
        free = [all(spans[i][1] <= a or spans[i][0] >= b for a, b in row) for row in taken]
        rows[i] = free.index(True) if True in free else len(taken)
        if rows[i] == len(taken):
            taken.append([])
        taken[rows[i]].append(spans[i])
    outside = sum(max(0.0, -left) + max(0.0, right - 1) for left, right in spans)
    crossed = sum(
        rows[i] > rows[j] and spans[j][0] < centres[i] < spans[j][1]
        for i, j in itertools.permutations(range(len(spans)), 2)
    )
    turned = sum(alignment != "center" for alignment in alignments)
    places = list(zip(alignments, rows, strict=True))
    return 3 * sum(rows) + turned + 10 * crossed + 100 * outside, places


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
