"""Condensation rates along the training of the decoder."""

from typing import Any

import numpy as np

from flowsim.experiments.paper.finding import Finding, claim
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.stages import (
    EVENTS,
    LABELS,
    NEURONS,
    SHARE,
    Stages,
    by_matrix,
    earlier,
)
from flowsim.report import figures


def figure(lab: Laboratory) -> Finding:
    """Condensation rates over time, and whether the neurons condense before W_Q sets out."""
    seen = lab.stages()
    rates, times = seen.condensation, np.asarray(seen.run.times)
    rows = [
        {"step": times[i]} | {name: rates[name][i] for name in rates}
        for i in np.unique(np.linspace(0, len(times) - 1, 25).astype(int))
    ]
    claims = [
        claim(f"{SHARE:.0%} of the neurons of {', '.join(NEURONS)} are condensed before ‖W_Q‖ has "
              "doubled", earlier(seen.condensed, seen.onset_norm),
              [seen.condensed, seen.onset_norm]),
        claim("and before W_Q, W_K change faster than they, relative to their size",
              earlier(seen.condensed, seen.onset), [seen.condensed, seen.onset]),
        claim(f"{SHARE:.0%} of W_V's columns reach v itself",
              rates["W_V columns to v"].max() >= SHARE, float(rates["W_V columns to v"].max())),
    ]  # fmt: skip
    return Finding(claims, rows, draw(seen), lab.about() + NOTE)


NOTE = (
    " Adam divides gradients by their size entry by entry, so W_V's columns line up with the signs "
    "of v rather than with v: for a Gaussian v that leaves a cosine of about sqrt(2/π) = 0.80."
)


def draw(seen: Stages, *, ax: Any = None) -> Any:
    """Shares of neurons on one line."""
    seen = seen.early()
    ax = figures.curves.draw(
        seen.run,
        by_matrix(seen) | {"to v": seen.condensation["W_V columns to v"]},
        ax=ax,
        labels=LABELS | {"to v": "columns of $W_V$ to $v$"},
        events=EVENTS,
        ylabel=r"share with $|\cos|\geq 0.95$",
        title="Condensation",
    )
    ax.set_ylim(-0.04, 1.04)
    return ax
