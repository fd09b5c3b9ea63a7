"""Gradient descent and SGD against the flow, over learning rates and batch sizes (section 9)."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim import checks, storage
from flowsim.compare import DescentComparison
from flowsim.compare.descent import compare_descent
from flowsim.descent import Descent, train
from flowsim.experiments import config as configuration
from flowsim.experiments.batch_sizes import batch_rows
from flowsim.experiments.setting import Setting, TwoStage
from flowsim.experiments.summary import untrusted_because
from flowsim.flows import Modified
from flowsim.integrate import integrate, simulate
from flowsim.observables import along
from flowsim.observables.sharpness import sharpness
from flowsim.trajectory import Trajectory

#: Steps to the time of comparison for the default learning rates.
STEPS = (250, 500, 1000, 2000)
#: More steps than these to the time of comparison are refused.
MOST_STEPS = 10**7
#: The runs go on to this multiple of T*, so that the escape is seen.
BEYOND = 1.15
#: Saved times of the flow, rows of a descent, times at which sharpness is taken.
FLOW_ROWS, DESCENT_ROWS, SHARPNESS_ROWS = 500, 500, 60
#: Errors below this are rounding and integration, not order.
FLOOR = 1e-11
RTOL = 1e-13


@dataclasses.dataclass(frozen=True)
class DescentStudy:
    """What is compared: a start, learning rates, batch sizes.

    `rates` are learning rates η; each is rounded so that a whole number of steps ends at
    `fraction` T*, where the errors are taken. Without them the numbers of steps to that time are
    250, 500, 1000 and 2000. `batches` are batch sizes, by default n/64, n/16 and n/4, run with the
    largest of the rates and `members` keys each.
    """

    task: str = "digits"
    scale: float = 1e-2
    width: int = 16
    seed: int = 0
    activation: str = "tanh"
    loss: str = "exponential"
    attention: str = "softmax"
    rates: tuple[float, ...] | None = None
    fraction: float = 0.75
    batches: tuple[int, ...] | None = None
    members: int = 16
    diffusion: bool = False


@dataclasses.dataclass(frozen=True)
class Study:
    """The parts that figures are drawn from, beside the summary."""

    summary: dict[str, Any]
    comparisons: dict[float, DescentComparison]
    sharpness: tuple[Any, Any]
    time_star: float
    trusted: bool


def run(config: DescentStudy, out: str | Path | None, *, overwrite: bool = False) -> dict[str, Any]:
    """The comparison and its summary; with `out` also a folder (`summary.json` is written last)."""
    setting, time_star = checked(config)
    if out is None:
        return compute(config, setting, time_star).summary
    with storage.open_folder(out, overwrite=overwrite) as folder:
        study = compute(config, setting, time_star)
        configuration.write(folder, resolved(config, setting, study.summary))
        draw(study, folder)
        storage.write_json(folder / storage.SUMMARY, study.summary)
        return study.summary


def checked(config: DescentStudy) -> tuple[Setting, float]:
    """Setting and T*, with every argument checked before anything is written."""
    checks.between("fraction", config.fraction, 0.0, 1.0)
    checks.integer("members", config.members, low=2)
    shared = {f.name for f in dataclasses.fields(TwoStage)} & set(vars(config)) - {"rates"}
    setting = Setting(TwoStage(**{name: getattr(config, name) for name in shared}))
    for name in ("rates", "batches"):
        if getattr(config, name) == ():
            raise checks.fail(name, "not be empty", ())
    for size in config.batches or ():
        if checks.integer("batches", size) > setting.task.size:
            rule = f"be at most the number of samples, {setting.task.size}"
            raise checks.fail("batches", rule, size)
    time_star = float(setting.blow_up().time) / setting.kappa
    if not np.isfinite(time_star):
        raise checks.fail("seed", "give a start whose leading-order flow blows up", config.seed)
    least = config.fraction * time_star / MOST_STEPS
    for eta in config.rates or ():
        if checks.positive("rates", eta) < least:
            rule = f"be at least {least:.3g} ({MOST_STEPS:.0e} steps to the time of comparison)"
            raise checks.fail("rates", rule, eta)
    return setting, time_star


def resolved(config: DescentStudy, setting: Setting, summary: dict[str, Any]) -> DescentStudy:
    """The configuration with the width of the task and the rates and batches that were run."""
    return dataclasses.replace(
        config,
        width=setting.task.width,
        rates=tuple(row["learning_rate"] for row in summary["rates"]),
        batches=tuple(row["batch_size"] for row in summary["batches"]),
    )


def compute(config: DescentStudy, setting: Setting, time_star: float) -> Study:
    """All runs and their summary."""
    started = time.perf_counter()
    at = config.fraction * time_star
    flow = reference(setting, time_star, at)
    steps = STEPS if config.rates is None else [max(1, round(at / eta)) for eta in config.rates]
    rows, comparisons = [], {}
    for count in sorted(set(steps)):
        descent = descend_past(setting, at, count, time_star)
        comparisons[at / count] = compare_descent(flow, descent)
        rows.append(row(setting, flow, descent, comparisons[at / count], at, count))
    curve = sharpness_along(setting, flow)
    for entry in rows:
        entry["unstable_from"] = first_above(curve, 2 / entry["learning_rate"])
    batches = batch_rows(setting, flow.evaluate(at), at, min(steps), config)
    summary = {
        "task": config.task,
        "scale": config.scale,
        "seed": config.seed,
        "kappa": setting.kappa,
        "blow_up_time": time_star,
        "time": at,
        "slopes": {name: slope(rows, f"{name}_error") for name in ("descent", "modified")},
        "rates": rows,
        "batches": batches,
        "outcome": flow.outcome.name,
        "trusted": bool(flow.trusted),
        "untrusted_because": untrusted_because(flow, RTOL),
        "seconds": time.perf_counter() - started,
    }
    return Study(summary, comparisons, curve, time_star, bool(flow.trusted))


def reference(setting: Setting, time_star: float, at: float) -> Trajectory:
    """The flow past T*, saved often and at the time of comparison."""
    end = BEYOND * time_star
    times = np.unique(np.append(np.linspace(0, end, FLOW_ROWS), at))
    return simulate(setting.net, setting.task, setting.theta0, t1=end, times=times, rtol=RTOL)


def descend_past(setting: Setting, at: float, count: int, time_star: float) -> Descent:
    """Gradient descent with `count` steps to the time of comparison, on to the end of the flow."""
    steps = int(BEYOND * time_star / at * count)
    spaced = np.linspace(0, steps, min(steps, DESCENT_ROWS) + 1).astype(int)
    saved = np.unique(np.append(spaced, count))
    return train(
        setting.net,
        setting.task,
        setting.theta0,
        learning_rate=at / count,
        steps=steps,
        save_steps=saved,
    )


def row(
    setting: Setting,
    flow: Trajectory,
    descent: Descent,
    found: DescentComparison,
    at: float,
    count: int,
) -> dict[str, Any]:
    """One line of the table over learning rates."""
    entry = {
        "learning_rate": at / count,
        "steps": count,
        "descent_error": None,
        "modified_error": None,
        "delay": found.delay,
        "predicted_delay": found.predicted_delay,
        "lag_at_blow_up": found.lag_at_blow_up,
        "predicted_lag": found.predicted_lag,
        "diverged_at_step": descent.stats.get("diverged_at_step"),
    }
    reached = np.flatnonzero(np.asarray(descent.steps) == count)
    if reached.size:
        state = jax.tree.map(lambda x: x[reached[0]], descent.states)
        modified = Modified(setting.net, setting.task, at / count)
        second = integrate(modified, setting.theta0, at, times=[at], rtol=RTOL)
        entry["descent_error"] = distance(state, flow.evaluate(at))
        entry["modified_error"] = distance(state, second.final)
    return entry


def distance(state: Any, other: Any) -> float:
    """‖θ − θ'‖/‖θ'‖."""
    leaves = list(zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True))
    apart = sum(float(jnp.sum((a - b) ** 2)) for a, b in leaves)
    return float(np.sqrt(apart / sum(float(jnp.sum(b**2)) for _, b in leaves)))


def slope(rows: list[dict[str, Any]], name: str) -> float | None:
    """The order: slope of log error against log η, where errors are above rounding."""
    points = [(r["learning_rate"], r[name]) for r in rows if r[name] and r[name] > FLOOR]
    if len(points) < 2:
        return None
    logs = np.log(np.asarray(points))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def sharpness_along(setting: Setting, flow: Trajectory) -> tuple[Any, Any]:
    """(times, λ_max) at equally spaced rows of the flow."""
    chosen = np.unique(np.linspace(0, len(flow) - 1, SHARPNESS_ROWS).astype(int))
    thin = Trajectory(
        np.asarray(flow.times)[chosen],
        jax.tree.map(lambda x: x[chosen], flow.states),
        flow.outcome,
    )
    return thin.times, along(thin, eqx.Partial(sharpness, setting.net, setting.task), chunk=1)


def first_above(curve: tuple[Any, Any], level: float) -> float | None:
    """The first time at which the curve is above the level; None if it never is."""
    times, values = curve
    above = np.flatnonzero(np.asarray(values) > level)
    return float(times[above[0]]) if above.size else None


def draw(study: Study, folder: Path) -> None:
    """The figures, PNG and PDF, and the tables."""
    from flowsim.report import figures, save_figure, save_table
    from flowsim.report.canvas import mark_untrusted

    rows, batches = study.summary["rates"], study.summary["batches"]
    largest_first = sorted(study.comparisons.items(), reverse=True)
    named = {f"η = {eta:.3g}": found for eta, found in largest_first}
    drawn = {
        "orders": figures.descent_orders(rows),
        "distances": figures.descent_distances(named, blow_up_time=study.time_star),
        "lags": figures.descent_lags(rows),
        "batch_sizes": figures.batch_sizes(batches),
        "sharpness": figures.sharpness(
            *study.sharpness, [r["learning_rate"] for r in rows], blow_up_time=study.time_star
        ),
    }
    for name, figure in drawn.items():
        mark_untrusted(figure, study)
        save_figure(figure, folder / "figures", name)
    save_table(rows, folder, "rates")
    save_table(batches, folder, "batches")
