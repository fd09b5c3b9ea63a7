"""The picture of the stages on a text."""

from typing import Any

import numpy as np

from flowsim.experiments.paper.stages import LABELS, MATRICES, Stages, by_matrix, with_steps
from flowsim.report import figures
from flowsim.report.canvas import legend_below, new_figure
from flowsim.report.figures.similarity import similarity_bar, similarity_matrices
from flowsim.report.style import GREY, SPARE, TWO_COLUMNS, figure_style, symbol

#: The matrices whose similarities are shown.
SHOWN = ("W_V", "W_1", "W_Q")
#: Inches of a row of similarities, and of a row of curves.
ROW, PANEL = 1.7, 2.5


def draw(seed: Any, text: Any, small: list[dict[str, Any]]) -> Any:
    """Similarities of the first layer; rates and ranks of every layer; losses, and the first stage
    of the gradient flow."""
    count = len(seed.layers)
    with figure_style():
        heights = ROW * len(SHOWN), PANEL * (count + 1)
        top, bottom = new_figure(TWO_COLUMNS, sum(heights)).subfigures(2, 1, height_ratios=heights)
        grid = top.subplots(len(SHOWN), 4)
        for name, line in zip(SHOWN, grid, strict=True):
            similarity_matrices(
                seed.layers[0].run, name, axes=line, at=moments(seed.layers[0]), compact=True
            )
            line[0].set_ylabel(f"rows of {symbol(name)}, layer 1")
        similarity_bar(grid, shrink=0.5)
        panels = bottom.subplots(count + 1, 2)
        for place, (seen, (left, right)) in enumerate(zip(seed.layers, panels, strict=False)):
            layer_panels(seen, f"layer {place + 1}", left, right)
        losses(seed, text, panels[-1, 0])
        first_stage(small, panels[-1, 1])
    return [*grid.ravel(), *panels.ravel()]


def moments(seen: Stages) -> dict[str, float | None]:
    """Start, ‖W_Q‖ doubled, smallest rank of W_Q, end, with their steps."""
    times = seen.run.times
    found = {
        "start": float(times[0]),
        r"$\|W_Q\|\times 2$": seen.onset_norm,
        "least rank of $W_Q$": seen.collapse,
        "end": float(times[-1]),
    }
    return with_steps(found)


def layer_panels(seen: Stages, title: str, left: Any, right: Any) -> None:
    """Shares of neurons on one line, and effective ranks, over the logarithm of the step; dotted
    where ‖W_Q‖ has doubled."""
    figures.curves.draw(
        seen.run, by_matrix(seen), ax=left, labels=LABELS, events=(),
        ylabel=r"share with $|\cos|\geq 0.95$", title=f"Condensation, {title}",
    )  # fmt: skip
    figures.effective_ranks(
        seen.run, ax=right, values=seen.ranks, names=MATRICES, events=(),
        title=f"Effective ranks, {title}",
    )  # fmt: skip
    right.set_yscale("log")
    right.set_ylim(bottom=1)
    for ax, free in ((left, 0.1), (right, 0.9)):
        ax.set_xscale("log")
        ax.set_xlim(1, float(seen.run.times[-1]))
        if seen.onset_norm is not None:
            ax.axvline(seen.onset_norm, color=GREY, linewidth=0.6, linestyle=":")
            ax.text(
                1.1 * seen.onset_norm, free, r"$\|W_Q\|\times 2$", color=GREY, fontsize="small",
                va="center", transform=ax.get_xaxis_transform(),
            )  # fmt: skip


def losses(seed: Any, text: Any, ax: Any) -> None:
    """The validation loss, over what word frequencies alone reach."""
    color, marker = SPARE[0]
    ax.plot(seed.steps, seed.losses, color=color, marker=marker, label="validation")
    ax.axhline(text.entropy, color=GREY, linewidth=0.8, label="unigram entropy of the text")
    ax.axhline(text.unigram, color=GREY, linewidth=0.8, linestyle=":",
               label="unigram, validation windows")  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlim(1, float(seed.steps[-1]))
    ax.set_xlabel("optimiser steps")
    ax.set_ylabel("cross-entropy (nats)")
    ax.set_title("Loss", loc="left")
    legend_below(ax)


def first_stage(rows: list[dict[str, Any]], ax: Any) -> None:
    """Errors of the first stage over ε; thin lines have slopes 1 and 2."""
    scales = np.array([row["scale"] for row in rows])
    names = {"error of W_V": "$W_V$ against prediction", "movement of the others": "others moved"}
    for (name, label), (color, marker) in zip(names.items(), SPARE[:2], strict=True):
        values = np.array([row[name] for row in rows])
        ax.loglog(scales, values, color=color, marker=marker, label=label)
        slope = 1 if name == "error of W_V" else 2
        line = values[-1] * (scales / scales[-1]) ** slope
        ax.loglog(scales, line, color=GREY, linewidth=0.6)
    ax.set_xlabel(r"scale $\varepsilon$ of the start")
    ax.set_ylabel("relative difference")
    ax.set_title("First stage of the gradient flow", loc="left")
    legend_below(ax)
