"""Both stages from many seeds: predicted against simulated blow-up, over scales."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flowsim import checks, storage
from flowsim.ensemble import Runs, summarise_runs, two_stage_runs
from flowsim.experiments import config as configuration
from flowsim.experiments.setting import Setting, TwoStage
from flowsim.outcome import NAMES


@dataclasses.dataclass(frozen=True)
class SeedStudy:
    """`count` starts at each of the scales ε; member i draws from fold_in(key(seed), i), so that a
    member's starts at two scales are multiples of one another.

    A member passes when its simulated escape is within `tolerance` of its predicted T, relatively.
    """

    task: str = "digits"
    count: int = 8
    scales: tuple[float, ...] = (1e-2, 1e-3)
    width: int = 16
    seed: int = 0
    activation: str = "tanh"
    loss: str = "exponential"
    attention: str = "softmax"
    rtol: float = 1e-8
    max_steps: int = 100_000
    t1: float | None = None
    tolerance: float = 0.05


def run(config: SeedStudy, out: str | Path | None = None, *, overwrite: bool = False) -> Any:
    """The summary; with `out` also a folder with `seeds.nc`, tables and figures."""
    settings = checked(config)
    if out is None:
        return summarise(config, solved(config, settings))
    with storage.open_folder(out, overwrite=overwrite) as folder:
        found = solved(config, settings)
        summary = summarise(config, found)
        configuration.write(folder, config)
        storage.write_netcdf(folder / "seeds.nc", dataset(config, found))
        draw(config, found, summary, folder)
        storage.write_json(folder / storage.SUMMARY, summary)
        return summary


def solved(config: SeedStudy, settings: list[Setting]) -> list[Runs]:
    """The runs at each scale."""
    key = jax.random.key(config.seed)
    return [
        two_stage_runs(
            setting.net, setting.task, key, config.count,
            scale=setting.scale, t1=config.t1, rtol=config.rtol, max_steps=config.max_steps,
        )
        for setting in settings
    ]  # fmt: skip


def checked(config: SeedStudy) -> list[Setting]:
    """One setting a scale, with every argument checked before anything is written."""
    checks.integer("count", config.count)
    checks.positive("tolerance", config.tolerance)
    if not config.scales:
        raise checks.fail("scales", "not be empty", config.scales)
    shared = {f.name for f in dataclasses.fields(TwoStage)} & set(vars(config))
    given = {name: getattr(config, name) for name in shared}
    return [Setting(TwoStage(**given, scale=scale)) for scale in config.scales]


def summarise(config: SeedStudy, found: list[Runs]) -> dict[str, Any]:
    """`summarise_runs` at each scale, and T ε, which is the same at all (T ∝ 1/ε)."""
    rows = []
    for scale, runs in zip(config.scales, found, strict=True):
        times_scale = float(np.median(runs.predicted)) * scale
        rows.append({"scale": scale, "predicted_times_scale": times_scale}
                    | summarise_runs(runs, config.tolerance))  # fmt: skip
    return {"task": config.task, "count": config.count, "seed": config.seed, "scales": rows}


def dataset(config: SeedStudy, found: list[Runs]) -> Any:
    """An `xarray.Dataset` along `scale` and `member`; training time, infinite: did not happen."""
    import xarray

    stacked = jax.tree.map(lambda *parts: np.stack(parts), *found)
    dims = ("scale", "member")
    flags = {"flag_values": np.arange(len(NAMES)), "flag_meanings": " ".join(NAMES)}
    variables = {
        "predicted": (dims, stacked.predicted, {"long_name": "T of the leading-order flow"}),
        "outcome": (dims, stacked.outcome, flags),
        "trusted": (dims, stacked.trusted.astype(np.int8)),
        "end": (dims, stacked.end),
        "loss": (dims, stacked.loss, {"long_name": "loss at the end"}),
    }
    variables |= {name: (dims, times) for name, times in stacked.events.items()}
    coordinates = {"scale": list(config.scales), "member": np.arange(config.count)}
    return xarray.Dataset(variables, coords=coordinates, attrs={"clock": "training"})


def draw(config: SeedStudy, found: list[Runs], summary: dict[str, Any], folder: Path) -> None:
    """One figure a scale, and the table."""
    from flowsim.report import figures, save_figure, save_table

    table = [
        {name: row[name] for name in ("scale", "predicted_times_scale", "passed", "failed",
                                      "untrusted", "median_relative_error")}
        for row in summary["scales"]
    ]  # fmt: skip
    save_table(table, folder, "seeds")
    for scale, runs in zip(config.scales, found, strict=True):
        drawn = figures.predicted_against_simulated(
            runs.predicted, runs.events["escape"], runs.trusted, config.tolerance
        )
        save_figure(drawn, folder / "figures", f"escape_{scale:g}")
