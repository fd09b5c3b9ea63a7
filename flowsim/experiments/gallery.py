"""The figures of a run and its report page."""

from pathlib import Path
from typing import Any

from flowsim import storage
from flowsim.experiments import config as configuration
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


def write_page(setting: Setting, summary: dict[str, Any], folder: Path) -> None:
    """`report.html`: figures, comparison and configuration on one page."""
    from flowsim.report import report_page

    T, onset = summary["blow_up"], summary["onset"]
    comparison = [
        ("blow-up time T", T["predicted"], T["simulated"], T["relative_error"]),
        ("onset of stage 2", *onset.values(), _relative(*onset.values())),
    ]
    facts = {
        "bounds of T": f"{T['lower']} to {T['upper']} ({T['verdict']})",
        "plateau": summary["plateau"]["loss"] if summary["plateau"]["exists"] else "none",
        "final loss": summary["final"]["loss"],
        "final effective rank of W_Q": summary["final"]["effective_ranks"]["W_Q"],
        "prediction trusted until": summary["trusted_until"],
        **_errors(summary["comparison"]),
        **{f"Assumption {k} holds from": t for k, t in summary["assumptions"]["since"].items()},
        "outcome": summary["outcome"],
        "drift of conserved matrices": summary["conserved_drift"],
        "error of the energy balance": summary["energy_drift"],
    }
    config = setting.config
    page = report_page(
        f"Two stages: {config.task}, ε = {setting.scale:g}, seed {config.seed}",
        figures={name: (folder / f"figures/{name}.png", text) for name, text in CAPTIONS.items()},
        comparison=comparison,
        facts=facts,
        configuration=configuration.to_toml(config),
        warning=_warning(summary),
    )
    storage.write_text(folder / "report.html", page)


def _warning(summary: dict[str, Any]) -> str | None:
    """What stands above everything, in one line."""
    lines = [f"This run is not trusted: {why}." for why in summary["untrusted_because"]]
    lines += [f"Prediction: {line}." for line in summary["cautions"].values()]
    return " ".join(lines) or None


def _errors(comparison: dict[str, Any] | None) -> dict[str, Any]:
    """Relative errors at T and the departures, as lines of the page."""
    if comparison is None:
        return {}
    errors = {f"error of {k} at T": e for k, e in comparison["at_blow_up"].items()}
    return errors | {
        "prediction departs": comparison["departure"],
        "linear key-query growth departs": comparison["linear_departure"],
    }


def _relative(predicted: float | None, simulated: float | None) -> float | None:
    if predicted is None or simulated is None:
        return None
    return abs(simulated - predicted) / predicted
