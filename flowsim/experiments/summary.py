"""The summary of a run: what was predicted, what was simulated, how they compare."""

from typing import Any

import numpy as np

from flowsim.experiments.setting import Setting
from flowsim.observables.norms import norms
from flowsim.observables.ranks import effective_rank
from flowsim.predict import Prediction
from flowsim.trajectory import Trajectory

MATRICES = ("W_Q", "W_K", "W_V", "W_1")


def summarise(setting: Setting, run: Trajectory, prediction: Prediction) -> dict[str, Any]:
    """The contents of summary.json; what is not known is None. Times are training times."""
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
        "outcome": run.outcome.name,
        "trusted": bool(run.trusted),
        "events": events,
        "final": final_summary(setting, run),
        "steps": {name: run.stats[name] for name in ("accepted", "rejected", "evaluations")},
        "conserved_drift": run.stats["conserved_drift"],
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
