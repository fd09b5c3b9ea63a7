"""The report page of a run: what it says beside the figures, and what its words mean."""

from pathlib import Path
from typing import Any

from flowsim import storage
from flowsim.experiments import config as configuration
from flowsim.experiments.gallery import CAPTIONS
from flowsim.experiments.setting import Setting
from flowsim.report import report_page

NOT_REACHED = "not within the run"
#: What the page's words mean, in the order in which they come.
TERMS = {
    "blow-up time T": "when the leading-order flow, which small weights follow, blows up from this "
    "start; T* in the figures. Predicted: exact, from the start alone. Simulated: the escape, read "
    "off the growth of W_2 in the full model.",
    "onset of stage 2": "from when on queries and keys change faster, relative to their size, than "
    "the outer weights W_V, W_1, W_2.",
    "relative difference": "|simulated − predicted| over predicted.",
    "plateau": "the loss at which the outer weights come to rest while queries and keys are zero.",
    "effective rank": "the sum of the singular values over the largest: 1 for rank one.",
    "prediction trusted until": "until then it says of itself that it errs by about ε alone.",
    "error at T": "of a matrix: ‖predicted − simulated‖ over ‖simulated‖ at the predicted T; of "
    "the loss: over its fall since the start.",
    "departs": "the first time after T at which W_2 or W_Q is off by ten per cent: of the "
    "prediction, or of the linear flow of queries and keys alone.",
    "Assumption 1": "the condensation condition: the weights of every neuron, and of every pair of "
    "neurons, pull the same way. Here from when on it holds everywhere, to the end of the run.",
    "Assumptions 2 and 2*": "the outer weights (2), or their directions and the losses of the "
    "samples (2*), rest to the order of the square of the small queries and keys.",
    "conserved matrices, energy balance": "identities of the exact flow; how far the run is from "
    "them, relatively, measures the error of its integration.",
}


def write_page(setting: Setting, summary: dict[str, Any], folder: Path) -> None:
    """`report.html`: figures, comparison and configuration on one page."""
    config = setting.config
    page = report_page(
        f"Two stages: {config.task}, ε = {setting.scale:g}, seed {config.seed}",
        figures={name: (folder / f"figures/{name}.png", text) for name, text in CAPTIONS.items()},
        comparison=comparison(summary),
        facts=facts(summary),
        terms=TERMS,
        configuration=configuration.to_toml(setting.resolved),
        warning=_warning(summary),
    )
    storage.write_text(folder / "report.html", page)


def comparison(summary: dict[str, Any]) -> list[tuple[str, Any, Any, Any]]:
    """Rows (quantity, predicted, simulated, relative difference)."""
    T, onset = summary["blow_up"], tuple(summary["onset"].values())
    return [
        ("blow-up time T", T["predicted"], T["simulated"], _rounded(T["relative_error"])),
        ("onset of stage 2", *onset, _rounded(_relative(*onset))),
    ]


def facts(summary: dict[str, Any]) -> dict[str, Any]:
    """Further lines, name → value; words where a number is missing for a reason."""
    T, plateau, until = summary["blow_up"], summary["plateau"], summary["trusted_until"]
    since = summary["assumptions"]["since"]
    return {
        "bounds of T": f"{T['lower']} to {T['upper']} ({T['verdict']})",
        "plateau": plateau["loss"] if plateau["exists"] else "none",
        "final loss": summary["final"]["loss"],
        "final effective rank of W_Q": summary["final"]["effective_ranks"]["W_Q"],
        "prediction trusted until": "its end" if until is None else until,
        **_errors(summary["comparison"]),
        "Assumption 1 holds from": "does not last to the end" if since["1"] is None else since["1"],
        **{f"Assumption {k} holds from": _reached(since[k]) for k in ("2", "2*")},
        "outcome": summary["outcome"].replace("_", " "),
        "drift of conserved matrices": summary["conserved_drift"],
        "error of the energy balance": summary["energy_drift"],
    }


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
        "prediction departs": _reached(comparison["departure"]),
        "linear key-query growth departs": _reached(comparison["linear_departure"]),
    }


def _reached(time: float | None) -> float | str:
    return NOT_REACHED if time is None else time


def _relative(predicted: float | None, simulated: float | None) -> float | None:
    if predicted is None or simulated is None:
        return None
    return abs(simulated - predicted) / predicted


def _rounded(error: float | None) -> str | None:
    return None if error is None else f"{error:.2g}"
