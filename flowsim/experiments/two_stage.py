"""The whole run: one start through both stages, predicted, simulated, drawn and summarised."""

import time
from pathlib import Path
from typing import Any

from flowsim import storage
from flowsim.experiments import config as configuration
from flowsim.experiments.gallery import FILES, draw, write_page
from flowsim.experiments.setting import Setting as Setting
from flowsim.experiments.setting import TwoStage as TwoStage
from flowsim.experiments.summary import summarise
from flowsim.integrate import simulate
from flowsim.predict import predict


def run(
    config: TwoStage, out: str | Path, *, overwrite: bool = False, progress: bool = False
) -> dict[str, Any]:
    """The run, its folder and its summary (`summary.json`, which is written last)."""
    setting = Setting(config)
    folder = storage.open_folder(out, overwrite=overwrite, names=FILES)
    configuration.write(folder, config)
    clock = Clock()
    prediction = predict(setting.net, setting.task, setting.theta0)
    clock.lap("predict")
    simulated = simulate(
        setting.net,
        setting.task,
        setting.theta0,
        t1=config.t1,
        solver=config.solver,
        rtol=config.rtol,
        max_steps=config.max_steps,
        progress=progress,
    )
    clock.lap("simulate")
    simulated.save(folder / "trajectory.nc")
    prediction.trajectory.save(folder / "predicted.nc")
    draw(setting, simulated, prediction, folder)
    clock.lap("figures")
    summary = summarise(setting, simulated, prediction)
    summary["seconds"] |= clock.laps
    write_page(setting, summary, folder)
    storage.write_json(folder / storage.SUMMARY, summary)
    return summary


class Clock:
    """Wall time of the parts of a run, in seconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        """The part that ends now."""
        now = time.perf_counter()
        self.laps[name] = now - self.last
        self.last = now
