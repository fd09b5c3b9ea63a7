"""The summary of a run: what was predicted, what was simulated, how they compare."""

from typing import Any

import numpy as np

from flowsim.compare import PredictionComparison
from flowsim.experiments.setting import Setting
from flowsim.integrate.simulate import DRIFT_CLASS
from flowsim.observables.norms import norms
from flowsim.observables.ranks import effective_rank
from flowsim.predict import Prediction, assumptions
from flowsim.trajectory import Trajectory

MATRICES = ("W_Q", "W_K", "W_V", "W_1")


def summarise(
    setting: Setting,
    run: Trajectory,
    prediction: Prediction,
    comparison: PredictionComparison | None,
    linear: PredictionComparison | None,
) -> dict[str, Any]:
    """The contents of summary.json; what is not known is None. Times are training times.

    `comparison` is of the prediction, `linear` of the one to first order in the attention.
    """
    events = dict(run.event_times)
    config, plateau = setting.config, prediction.plateau
    return {
        "task": config.task,
        "scale": setting.scale,
        "seed": config.seed,
        "kappa": setting.kappa,
        "strength": float(setting.task.strength),
        "blow_up": blow_up_summary(setting, prediction, events.get("escape")),
        "plateau": {"exists": bool(plateau.exists), "loss": _finite(plateau.loss)},
        "onset": {"predicted": prediction.onset.time, "simulated": events.get("onset")},
        "onset_norm": {
            "predicted": prediction.onset_norm.time,
            "simulated": events.get("onset_norm"),
        },
        "growth_rate": _finite(prediction.growth_rate),
        "collapse_rate": _finite(prediction.collapse_rate),
        "trusted_until": _finite(prediction.trusted_until),
        "cautions": prediction.cautions,
        "comparison": comparison_summary(comparison, linear),
        "assumptions": assumptions_summary(setting, run),
        "outcome": run.outcome.name,
        "trusted": bool(run.trusted),
        "untrusted_because": untrusted_because(run, config.rtol),
        "events": events,
        "final": final_summary(setting, run),
        "steps": {name: run.stats[name] for name in ("accepted", "rejected", "evaluations")},
        "conserved_drift": run.stats["conserved_drift"],
        "energy_drift": run.stats["energy_drift"],
        "seconds": {"compile": run.stats["compile_seconds"], "run": run.stats["seconds"]},
    }


def blow_up_summary(
    setting: Setting, prediction: Prediction, simulated: float | None
) -> dict[str, Any]:
    """Predicted T with its bounds, the bound of [CL 11], and the escape of the simulation."""
    found = prediction.blow_up
    energy, predicted = float(found.energy), _finite(found.time)
    error = None
    if predicted is not None and simulated is not None:
        error = abs(simulated - predicted) / predicted
    return {
        "predicted": predicted,
        "lower": _finite(found.lower),
        "upper": _finite(found.upper),
        "bound_paper": energy ** (-1 / 3) / setting.kappa if energy > 0 else None,
        "verdict": found.verdict.name,
        "simulated": simulated,
        "relative_error": error,
    }


def untrusted_because(run: Trajectory, rtol: float) -> list[str]:
    """Which check a run that is not trusted broke, and by how much."""
    if run.trusted:
        return []
    measured = {
        "its conserved matrices drifted by": run.stats["conserved_drift"],
        "the fall of its loss is off the integral of ‖∇L‖² by": run.stats["energy_drift"],
    }
    most = DRIFT_CLASS * rtol
    limit = f"more than {DRIFT_CLASS:g} tolerances, {most:.2g}"
    lines = [f"it ended as {run.outcome}"] if run.outcome.failed else []
    # "not ≤": a drift that is no number breaks its limit too
    return lines + [f"{what} {x:.2g}, {limit}" for what, x in measured.items() if not x <= most]


def comparison_summary(
    comparison: PredictionComparison | None, linear: PredictionComparison | None
) -> dict[str, Any] | None:
    """Errors of the prediction, and when the linear key-query flow departs from the run."""
    if comparison is None:
        return None
    departure = None if linear is None else linear.departure
    return comparison.as_dict() | {"linear_departure": departure}


def assumptions_summary(setting: Setting, run: Trajectory) -> dict[str, Any]:
    """Since when Assumptions 1, 2 and 2* of [CL] hold, and their numbers at the events."""
    found = assumptions(setting.net, setting.task, run)
    end = float(run.times[-1])
    times = {name: t for name, t in run.event_times.items() if t <= end} | {"end": end}
    at = {n: {k: _finite(v) for k, v in found.at(t).items()} for n, t in times.items()}
    return {"since": found.since(), "at": at}


def final_summary(setting: Setting, run: Trajectory) -> dict[str, Any]:
    """Loss, norms and effective ranks at the end."""
    theta = run.final
    return {
        "time": float(run.times[-1]),
        "loss": float(setting.net.loss(theta, setting.task)),
        "norms": {name: float(value) for name, value in norms(theta).items()},
        "effective_ranks": {name: float(effective_rank(getattr(theta, name))) for name in MATRICES},
    }


def _finite(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
