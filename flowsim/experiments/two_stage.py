"""The whole run: one start through both stages, its prediction, figures and summary."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flowsim import checks, storage
from flowsim.blow_up import BlowUp, blow_up_time
from flowsim.experiments import config as configuration
from flowsim.experiments.sources import task_of
from flowsim.flows.leading_order import outer
from flowsim.integrate import simulate
from flowsim.network import OneLayerTransformer, Parameters, gaussian_parameters
from flowsim.observables.norms import norms
from flowsim.observables.ranks import effective_rank
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

FIGURES = (
    "overview",
    "loss",
    "norms",
    "change_rates",
    "effective_ranks",
    "condensation",
    "condition",
    "similarity",
)
#: What a run leaves besides its summary and configuration.
FILES = (
    "trajectory.nc",
    *(f"figures/{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")),
)
MATRICES = ("W_Q", "W_K", "W_V", "W_1", "W_2")


@dataclasses.dataclass(frozen=True)
class TwoStage:
    """What a run is: data, network, start and solver.

    `width` is the token width d; the other widths equal it unless given. `rate` γ replaces
    `scale` ε by d^(−γ). `t1` is in training time; without it the run ends after stage 2.
    """

    task: str = "digits"
    scale: float | None = None
    rate: float | None = None
    width: int = 16
    key_width: int | None = None
    value_width: int | None = None
    hidden_width: int | None = None
    seed: int = 0
    activation: str = "tanh"
    loss: str = "exponential"
    attention: str = "softmax"
    solver: str = "dopri8"
    rtol: float = 1e-8
    max_steps: int = 100_000
    t1: float | None = None


class Setting:
    """Task, network and start of a configuration, checked before anything is written."""

    def __init__(self, config: TwoStage):
        self.config = config
        self.task: Task = task_of(config.task, config.width)
        self.net = OneLayerTransformer(config.activation, config.loss, config.attention)
        self.scale = checks.positive("scale", scale_of(config, self.task.width))
        self.theta0: Parameters = gaussian_parameters(
            jax.random.key(checks.integer("seed", config.seed, low=0)),
            self.task.width,
            scale=self.scale,
            key_width=config.key_width,
            value_width=config.value_width,
            hidden_width=config.hidden_width,
        )

    @property
    def kappa(self) -> float:
        """κ, the rate of stage 1."""
        return float(self.net.kappa(self.task))

    def blow_up(self) -> BlowUp:
        """Blow-up of the leading-order flow from this start, in its unit-rate time."""
        return blow_up_time(*outer(self.theta0, self.net.direction(self.task)))


def scale_of(config: TwoStage, width: int) -> float:
    """ε of the start: `scale`, or d^(−γ) from `rate`; 1e-2 without either."""
    if config.rate is None:
        return 1e-2 if config.scale is None else config.scale
    if config.scale is not None:
        raise checks.fail("scale", "not be given together with rate", config.scale)
    return float(width) ** -config.rate


def run(
    config: TwoStage, out: str | Path, *, overwrite: bool = False, progress: bool = False
) -> dict[str, Any]:
    """The run, its folder and its summary (`summary.json`, which is written last)."""
    setting = Setting(config)
    folder = storage.open_folder(out, overwrite=overwrite, names=FILES)
    configuration.write(folder, config)
    trajectory = simulate(
        setting.net,
        setting.task,
        setting.theta0,
        t1=config.t1,
        solver=config.solver,
        rtol=config.rtol,
        max_steps=config.max_steps,
        progress=progress,
    )
    started = time.perf_counter()
    trajectory.save(folder / "trajectory.nc")
    blow_up = setting.blow_up()
    draw(setting, trajectory, blow_up, folder / "figures")
    figures = time.perf_counter() - started
    summary = summarise(setting, trajectory, blow_up)
    summary["seconds"]["figures"] = figures
    storage.write_json(folder / storage.SUMMARY, summary)
    return summary


def summarise(setting: Setting, trajectory: Trajectory, blow_up: BlowUp) -> dict[str, Any]:
    """The contents of summary.json; what is not known is None."""
    events = dict(trajectory.event_times)
    config = setting.config
    return {
        "task": config.task,
        "scale": setting.scale,
        "seed": config.seed,
        "kappa": setting.kappa,
        "strength": float(setting.task.strength),
        "blow_up": blow_up_summary(setting, blow_up, events.get("escape")),
        "plateau": {"exists": None, "loss": None},
        "onset": {"predicted": None, "simulated": events.get("onset")},
        "outcome": trajectory.outcome.name,
        "trusted": bool(trajectory.trusted),
        "events": events,
        "final": final_summary(setting, trajectory),
        "steps": {name: trajectory.stats[name] for name in ("accepted", "rejected", "evaluations")},
        "conserved_drift": trajectory.stats["conserved_drift"],
        "seconds": {
            "compile": trajectory.stats["compile_seconds"],
            "run": trajectory.stats["seconds"],
        },
    }


def blow_up_summary(setting: Setting, blow_up: BlowUp, simulated: float | None) -> dict[str, Any]:
    """Predicted T* in training time with its bounds, and the escape of the simulated model."""
    kappa, energy = setting.kappa, float(blow_up.energy)
    predicted = _finite(float(blow_up.time) / kappa)
    error = None
    if predicted is not None and simulated is not None:
        error = abs(simulated - predicted) / predicted
    return {
        "predicted": predicted,
        "lower": _finite(float(blow_up.lower) / kappa),
        "upper": _finite(float(blow_up.upper) / kappa),
        "bound_paper": energy ** (-1 / 3) / kappa if energy > 0 else None,
        "verdict": blow_up.verdict.name,
        "simulated": simulated,
        "relative_error": error,
    }


def final_summary(setting: Setting, trajectory: Trajectory) -> dict[str, Any]:
    """Loss, norms and effective ranks at the end."""
    theta = trajectory.final
    ranks = {name: float(effective_rank(getattr(theta, name))) for name in MATRICES[:-1]}
    return {
        "time": float(trajectory.times[-1]),
        "loss": float(setting.net.loss(theta, setting.task)),
        "norms": {name: float(value) for name, value in norms(theta).items()},
        "effective_ranks": ranks,
    }


def draw(setting: Setting, trajectory: Trajectory, blow_up: BlowUp, folder: Path) -> None:
    """The figures of a run, PNG and PDF."""
    from flowsim.report import figures, save_figure

    time_star = _finite(float(blow_up.time) / setting.kappa)
    shared: dict[str, Any] = {"blow_up_time": time_star}
    direction = setting.net.direction(setting.task)
    drawn = (
        figures.two_stage_overview(trajectory, setting.net, setting.task, **shared),
        figures.loss(trajectory, setting.net, setting.task, **shared),
        figures.norms(trajectory, **shared),
        figures.change_rates(trajectory, **shared),
        figures.effective_ranks(trajectory, **shared),
        figures.condensation(trajectory, direction, **shared),
        figures.condensation_condition(trajectory, direction, **shared),
        figures.similarity_gallery(trajectory, **shared),
    )
    for name, figure in zip(FIGURES, drawn, strict=True):
        save_figure(figure, folder, name)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
