"""Figures without pyplot: nothing global is read, changed or shown."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowsim.report.style import GREY, ONE_COLUMN

UNTRUSTED = "untrusted"
LETTERS_AN_INCH = 17.5
HANDLE_LETTERS = 6


def new_figure(width: float = ONE_COLUMN, height: float = 2.4) -> Any:
    """An empty figure in constrained layout, known to no pyplot; sizes in inches.

    A notebook shows it where it is the last line of a cell.
    """
    from flowsim.report.picture import Picture

    return Picture(width, height)


def axes_or_new(ax: Any, width: float = ONE_COLUMN, height: float = 2.4) -> Any:
    """The axes given, or those of a new figure."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def mark_untrusted(ax: Any, run: Any, *, below: bool = False) -> None:
    """A run whose invariants drifted beyond its tolerance says so on every picture of it.

    Behind the curves, or under an image that fills its axes (`below`), so that nothing is covered.
    """
    if bool(run.trusted):
        return
    place = {"y": -0.03, "va": "top", "fontsize": 6} if below else {
        "y": 0.5, "va": "center", "rotation": 20, "fontsize": 13, "alpha": 0.35, "zorder": 0.2,
    }  # fmt: skip
    ax.text(
        x=0.5, s="untrusted run", transform=ax.transAxes, ha="center", fontweight="bold",
        color="#B00000", in_layout=below, gid=UNTRUSTED, **place,
    )  # fmt: skip


def legend_below(ax: Any) -> None:
    """The legend under the x label, where it cannot cover a curve."""
    from matplotlib.transforms import ScaledTranslation

    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    figure = ax.get_figure(root=True)
    below = ax.transAxes + ScaledTranslation(0, -27 / 72, figure.dpi_scale_trans)
    ax.legend(
        handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below,
        ncols=legend_columns(labels, LETTERS_AN_INCH * width_of(ax)), labelcolor=GREY,
    )  # fmt: skip


def width_of(ax: Any) -> float:
    """Inches of its figure's width that belong to an axes, labels included."""
    figure = ax.get_figure(root=False)
    width = figure.bbox.width / ax.get_figure(root=True).dpi
    place = ax.get_subplotspec()
    if place is None:
        return width
    return width * (place.colspan.stop - place.colspan.start) / place.get_gridspec().ncols


def legend_columns(labels: Sequence[str], letters: float) -> int:
    """Legend columns (at least one) that fit in so many letters and make the fewest rows; of
    these the smallest number, so that rows are of like length.

    >>> legend_columns(["$W_Q$", "$W_K$", "predicted"], 40)
    3
    """
    widths = [HANDLE_LETTERS + len(re.sub(r"\\[a-z]+|[$^_{}\\ ]", "", text)) for text in labels]

    def needed(columns: int) -> int:
        return sum(max(column) for column in np.array_split(widths, columns))

    fitting = [c for c in range(1, len(widths) + 1) if needed(c) <= letters] or [1]
    rows = -(-len(widths) // fitting[-1])
    return next(c for c in fitting if -(-len(widths) // c) == rows)
