"""One picture of a whole run."""

from typing import Any

import numpy as np

from flowsim import observables
from flowsim.report.canvas import new_figure
from flowsim.report.figures import growth, structure
from flowsim.report.figures.similarity import moments, similarity_matrices
from flowsim.report.style import GREY, TWO_COLUMNS, figure_style
from flowsim.trajectory import Trajectory

#: As in the figure of condensation alone, without the word "columns", which the y label has.
SHORT = {"W_V columns to v": "$W_V$ along $v$", structure.OWN: "$W_V$ along one line"}
HOLDS = {"A1": "$A_1$ holds", "A2": "$A_2$ holds"}


def two_stage_overview(
    run: Trajectory,
    network: Any,
    task: Any,
    *,
    blow_up_time: Any = None,
    predicted: Trajectory | None = None,
) -> Any:
    """Both stages of a run in six panels: the counterpart of the paper's Figures 1 and 2.

    Look for: at T* the outer matrices blow up (b), condense (d) and lose their rank (e) while W_Q
    and W_K stand still; from the onset on W_Q and W_K grow (b, c), lose their rank (e) and their
    rows fall on one line (f). In (d), v is the condensation direction of the data, and A_1, A_2 are
    the two inequalities of Assumption 1, under which the outer matrices blow up together: the
    share of indices, and of pairs of them, at which they hold (`condensation_condition`).

    Args:
        network, task: give the loss and the condensation direction.
        blow_up_time: the predicted T* on the run's clock.
        predicted: a run of the theory, dashed black.
    Returns:
        An array of axes: (a) loss, (b) norms, (c) rates, (d) condensation, (e) effective ranks,
        then the four of (f). `axes[0].get_figure(root=True)` is the figure.
    """
    with figure_style():
        figure = new_figure(TWO_COLUMNS, 4.6)
        top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.04))
        left, right = bottom.subfigures(1, 2, width_ratios=(2, 1))
        panels = [*top.subplots(1, 3), *left.subplots(1, 2)]
        shared = {"blow_up_time": blow_up_time, "legend": False}
        upper = shared | {"predicted": predicted}
        if blow_up_time is not None:
            upper["xlabel"] = "time $t/T^*$"
        growth.loss(run, network, task, ax=panels[0], title="a  loss", **upper)
        growth.norms(run, ax=panels[1], title="b  norms", **upper)
        growth.change_rates(run, ax=panels[2], title="c  relative change rates", **upper)
        _condensation_panel(run, network.direction(task), panels[3], shared)
        structure.effective_ranks(
            run, ax=panels[4], title="e  effective ranks", predicted=predicted, **shared
        )
        last = _similarity_panel(right, run, blow_up_time)
        _shared_legend(top, panels[2])
    return np.array([*panels, *last], dtype=object)


def _condensation_panel(run: Trajectory, direction: Any, ax: Any, shared: dict) -> None:
    """W_V's columns, and the condition that goes before."""
    values = observables.along(run, structure.condensation_function(direction))
    values |= observables.along(run, structure.condition_function(direction))
    condition = ("A1", "A2") if "A1" in values else ("A1 hidden", "A1 value")
    structure.condensation(
        run, direction, ax=ax, values=values, title="d  condensation, its condition",
        names=("W_V columns to v", structure.OWN, *condition),
        labels=structure.CONDITION_LABELS | HOLDS | SHORT, ylabel="share of columns, indices",
        **shared | {"legend": True},
    )  # fmt: skip


def _similarity_panel(part: Any, run: Trajectory, blow_up_time: Any) -> Any:
    axes = part.subplots(2, 2).ravel()
    similarity_matrices(run, axes=axes, blow_up_time=blow_up_time, compact=True)
    for ax, name in zip(axes, moments(run, blow_up_time), strict=True):
        ax.set_title(name, fontweight="normal", fontsize=6, pad=1.5)
    bar = part.colorbar(axes[0].images[0], ax=axes, shrink=0.6, aspect=18, ticks=[-1, 0, 1])
    bar.outline.set_visible(False)
    bar.set_label("cosine", labelpad=-2)
    part.suptitle("f  cosines of $W_Q$'s rows", x=0.02, ha="left", fontsize=7.5, fontweight="bold")
    return axes


def _shared_legend(figure: Any, ax: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, labelcolor=GREY)
