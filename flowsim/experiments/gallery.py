"""The figures of a run and their captions."""

from pathlib import Path
from typing import Any

from flowsim.experiments.setting import Setting
from flowsim.predict import Prediction
from flowsim.trajectory import Trajectory

#: Figures in the order of the page, with what to look for.
CAPTIONS = {
    "overview": "Both stages at a glance: at T* the outer weights W_V, W[1], W[2] blow up, "
    "condense and lose their rank; from the onset on queries and keys grow and lose "
    "theirs. Dashed: predicted from the initial weights and the data. Time is "
    "compressed on the grey ground: kinks at its edge are the axis', not the run's. "
    "In d, v is the condensation direction of the data; A1 and A2 are the two "
    "inequalities of Assumption 1 (shares at which they hold).",
    "loss": "Loss: flat until T*, a plateau, then the fall of stage 2.",
    "norms": "Frobenius norms: the outer weights blow up at T*, W_Q and W_K grow in stage 2.",
    "key_query_growth": "Where the theory stops: the linear key-query flow grows on where stage 2 "
    "saturates; the line marks where it is off by ten percent.",
    "change_rates": "Relative rates of change: stage 2 begins where W_Q, W_K overtake (circle).",
    "effective_ranks": "Effective ranks: outer weights collapse by T*, W_Q and W_K after onset.",
    "condensation": "Condensation: share of W_V's columns within |cosine| 0.95 of the direction v "
    "of the data, and of one line, their own top singular direction.",
    "condition": "Assumption 1, the condition of condensation: shares of indices (A1) and of "
    "pairs of indices (A2) at which its inequalities hold, together and for each family alone.",
    "similarity": "Cosine similarities of rows, reordered, at four times in their order: two "
    "blocks mean that all rows lie on one line.",
}
FORMATS = ("png", "pdf")
#: Files that a run leaves besides its summary and configuration.
FILES = (
    "trajectory.nc",
    "predicted.nc",
    "report.html",
    *(f"figures/{name}.{kind}" for name in CAPTIONS for kind in FORMATS),
)


def draw(
    setting: Setting,
    run: Trajectory,
    prediction: Prediction,
    folder: Path,
    *,
    linear: Prediction,
    departure: float | None,
) -> None:
    """All figures, PNG and PDF; the predicted curves lie over the simulated ones.

    Args:
        linear: the prediction to first order in the attention; departure: when it leaves the run.
    """
    from flowsim.report import figures, save_figure

    net, task, direction = setting.net, setting.task, setting.net.direction(setting.task)
    T = float(prediction.blow_up.time)
    axis: dict[str, Any] = {"blow_up_time": T if float("inf") > T else None}
    both = axis | {"predicted": prediction.trajectory}
    drawn = {
        "overview": figures.two_stage_overview(run, net, task, **both),
        "loss": figures.loss(run, net, task, **both),
        "norms": figures.norms(run, **both),
        "key_query_growth": figures.departure(run, linear, departure),
        "change_rates": figures.change_rates(run, **both),
        "effective_ranks": figures.effective_ranks(run, **both),
        "condensation": figures.condensation(run, direction, **axis),
        "condition": figures.condensation_condition(run, direction, **axis),
        "similarity": figures.similarity_gallery(run, **axis),
    }
    for name, figure in drawn.items():
        save_figure(figure, folder / "figures", name, FORMATS)
