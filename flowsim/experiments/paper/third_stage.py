"""The third stage: after the collapse parameters leave the condensed state again."""

from typing import Any

import numpy as np

from flowsim.experiments.paper.finding import Finding, claim
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.stages import EVENTS, LABELS, NEURONS_OF, SHARE, Stages, by_matrix
from flowsim.report import figures
from flowsim.report.canvas import new_figure
from flowsim.report.style import TWO_COLUMNS, figure_style

#: A matrix has left where fewer than this share of its neurons are on one line, to the end, after
#: it was condensed.
LEFT = 0.9
OUTER = ("W_V", "W_1", "W_2")


def figure(lab: Laboratory) -> Finding:
    """Which matrices leave the condensed state after it was reached, in what order, and when.

    Dated in the run: a matrix leaves at the last moment from which on less than 90 % of its
    neurons are on one line, provided that 95 % were before.
    """
    training, seen = lab.trained(), lab.stages()
    rows = [departure(seen, name) for name in OUTER]
    for row in rows:
        step = row["left at step"]
        row["left at epoch"] = None if step is None else step / training.steps_per_epoch
    left = {row["matrix"]: row["left at step"] for row in rows}
    known = {name: step for name, step in left.items() if step is not None}
    claims = [
        claim("a third stage: outer matrices leave the condensed state after the collapse of W_Q",
              bool(known) and min(known.values()) > seen.collapse, left),
        claim("W_1 leaves first", bool(known) and left["W_1"] == min(known.values())
              and list(known.values()).count(left["W_1"]) == 1, left),
    ]  # fmt: skip
    return Finding(claims, rows, draw(seen), lab.about())


def departure(seen: Stages, name: str) -> dict[str, Any]:
    """When one matrix condensed, and when it left that state for good."""
    times, rate = np.asarray(seen.run.times), by_matrix(seen)[name]
    there = np.flatnonzero(rate >= SHARE)
    below = np.flatnonzero(rate >= LEFT)
    gone = there.size > 0 and below[-1] + 1 < len(times)
    return {
        "matrix": name,
        "neurons": NEURONS_OF[name],
        "condensed at step": float(times[there[0]]) if there.size else None,
        "left at step": float(times[below[-1] + 1]) if gone else None,
        "rate at the end": float(rate[-1]),
        "rank, least": float(seen.ranks[name].min()),
        "rank at the end": float(seen.ranks[name][-1]),
    }


def draw(seen: Stages) -> Any:
    """Condensation rates and effective ranks to the end of the run."""
    with figure_style():
        left, right = new_figure(TWO_COLUMNS, 2.8).subplots(1, 2)
        figures.curves.draw(
            seen.run, by_matrix(seen), ax=left, events=EVENTS[-1:], labels=LABELS,
            ylabel=r"share with $|\cos|\geq 0.95$", title="Condensation",
        )  # fmt: skip
        figures.effective_ranks(
            seen.run, ax=right, values=seen.ranks, events=EVENTS[-1:], names=tuple(seen.ranks)
        )
        right.set_yscale("log")
        right.set_ylim(bottom=1)
    return [left, right]
