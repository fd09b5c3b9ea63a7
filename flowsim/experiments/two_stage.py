"""The whole run: one start through both stages, predicted, simulated, drawn and summarised."""

import contextlib
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from flowsim import storage
from flowsim.compare.prediction import PredictionComparison, compare_prediction
from flowsim.experiments import config as configuration
from flowsim.experiments.gallery import FILES, draw
from flowsim.experiments.run_page import write_page
from flowsim.experiments.setting import Setting as Setting
from flowsim.experiments.setting import TwoStage as TwoStage
from flowsim.experiments.summary import summarise
from flowsim.integrate import simulate
from flowsim.predict import Caution, Prediction, predict
from flowsim.trajectory import Trajectory


def run(
    config: TwoStage, out: str | Path, *, overwrite: bool = False, progress: bool = False
) -> dict[str, Any]:
    """The run, its folder and its summary (`summary.json`, which is written last)."""
    setting = Setting(config)
    with storage.open_folder(out, overwrite=overwrite, names=FILES) as folder:
        return _run(setting, folder, progress)


def _run(setting: Setting, folder: Path, progress: bool) -> dict[str, Any]:
    configuration.write(folder, setting.resolved)
    clock = Clock()
    simulated, prediction, linear = solved(setting, progress=progress)
    clock.lap("solve")
    simulated.save(folder / "trajectory.nc")
    prediction.trajectory.save(folder / "predicted.nc")
    comparison, linear_comparison = (compared(simulated, p) for p in (prediction, linear))
    clock.lap("compare")
    departure = None if linear_comparison is None else linear_comparison.departure
    draw(setting, simulated, prediction, folder, linear=linear, departure=departure)
    clock.lap("figures")
    summary = summarise(setting, simulated, prediction, comparison, linear_comparison)
    summary["seconds"] |= clock.laps
    write_page(setting, summary, folder)
    storage.write_json(folder / storage.SUMMARY, summary)
    return summary


def solved(
    setting: Setting, *, progress: bool = False
) -> tuple[Trajectory, Prediction, Prediction]:
    """The simulation, its prediction, and that to first order in the attention.

    The last one has the linear key-query growth. The three do not need one another and compile
    side by side. What predictions warn of is in the summary.
    """
    config, start = setting.config, (setting.net, setting.task, setting.theta0)
    pool = ThreadPoolExecutor()
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        # an interrupt does not wait for what the others compile
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        warnings.simplefilter("ignore", Caution)
        prediction = pool.submit(predict, *start)
        linear = pool.submit(predict, *start, separated=True)
        simulated = simulate(
            *start,
            t1=config.t1,
            solver=config.solver,
            rtol=config.rtol,
            max_steps=config.max_steps,
            progress=progress,
        )
        return simulated, prediction.result(), linear.result()


def compared(run: Trajectory, prediction: Prediction) -> PredictionComparison | None:
    """The run beside a prediction; None where it failed before it began."""
    if not len(run) > 1:
        return None
    return compare_prediction(run, prediction)


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
