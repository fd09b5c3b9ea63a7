"""The full model's flow to the end of stage 1 and to the onset of stage 2: flowsim against SciPy on
the same compiled gradient, plain diffrax, and gradient descent.

    python -m benchmarks.full_model [--toy] [--large] [--out FOLDER]

Digits at d = 16, the planted task at d = 64 and 256 (`--large`: 640), tanh, ε = 1e-2, rtol 1e-6 for
all. `digits` are those of the whole state at the end against flowsim at rtol 1e-12;
`evaluations` counts gradients. Gradient descent takes the largest stable learning rate,
2/λ_max with λ_max the largest sharpness on the way, and the one with an error of 1e-4, whose
steps follow from its measured first-order error and whose time is that of the measured steps.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import flowsim as fs
from benchmarks import harness
from benchmarks.flat_flow import FlatFlow
from flowsim.experiments.setting import Setting, TwoStage
from flowsim.flows import Full
from flowsim.observables.sharpness import sharpness

SCALE, RTOL, EXACT, ACCURACY = 1e-2, 1e-6, 1e-12, 1e-4
CASES: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("digits", 16, ("end of stage 1", "onset")),
    ("gaussian", 64, ("end of stage 1", "onset")),
    ("gaussian", 256, ("end of stage 1",)),
)
LARGE = ("gaussian", 640, ("end of stage 1",))
#: From this width on a solver is timed once, and only those that may win run.
WIDE = 256
SCIPY, FAST_SCIPY = ("DOP853", "RK45", "LSODA"), ("DOP853",)
DIFFRAX, FAST_DIFFRAX = ("Dopri8", "Tsit5"), ("Dopri8",)
#: Gradient descent is not run for longer than this; below this error it is taken as first order.
MOST_STEPS, FIRST_ORDER = 20_000, 0.02


def measure(toy: bool = False, large: bool = False) -> Iterator[harness.Group]:
    """All rows, by task."""
    cases = [("gaussian", 3, ("end of stage 1",))] if toy else list(CASES)
    if large:
        cases.append(LARGE)
    for task, width, marks in cases:
        setting = Setting(TwoStage(task=task, width=width, scale=SCALE))
        times = marked(setting, marks)
        for mark in marks:
            problem = f"{task}, d = {width}, to the {mark}"
            yield rows(problem, setting, times[mark], 1 if toy or width >= WIDE else 5)


def marked(setting: Setting, marks: tuple[str, ...]) -> dict[str, float]:
    """The predicted blow-up time T* and, if it is asked for, the onset."""
    found = {"end of stage 1": float(setting.blow_up().time) / setting.kappa}
    if "onset" in marks:
        run = fs.simulate(setting.net, setting.task, setting.theta0, rtol=RTOL, times=[0.0])
        found["onset"] = run.event_times["onset"]
    return found


def rows(problem: str, setting: Setting, t1: float, rounds: int) -> Iterator[harness.Row]:
    """One row a solver; compiled by a first run to a hundredth of the time."""
    flow = Full(setting.net, setting.task)
    exact = flowsim_solve(flow, setting, t1, EXACT)[0]
    solvers = solvers_of(FlatFlow(flow, setting.theta0), flow, setting, rounds == 1)
    warm = {name: partial(solve, t1 / 100) for name, solve in solvers.items()}
    found = harness.timings(
        {name: partial(solve, t1) for name, solve in solvers.items()}, rounds, warm=warm
    )
    ours = found[harness.OURS].median
    for name, timing in found.items():
        vector, evaluations = timing.answer
        yield _row(problem, name, timing.median, ours, evaluations, relative(vector, exact))
    for name, seconds, steps, error in descents(setting, flow, t1, exact):
        yield _row(problem, name, seconds, ours, steps, error)


def _row(problem, solver, seconds, ours, evaluations, error) -> harness.Row:
    return {
        "problem": problem,
        "solver": solver,
        "ms": 1e3 * seconds,
        "times ours": seconds / ours,
        "digits": -np.log10(error),
        "evaluations": evaluations,
    }


def relative(vector: Any, exact: Any) -> float:
    return float(np.linalg.norm(vector - exact) / np.linalg.norm(exact))


def solvers_of(flat: FlatFlow, flow: Full, setting: Setting, fast: bool) -> dict[str, Callable]:
    """What is compared; each takes an end time and returns the state there and its evaluations."""
    found: dict[str, Callable] = {harness.OURS: partial(flowsim_solve, flow, setting)}
    for name in FAST_SCIPY if fast else SCIPY:
        found[f"SciPy {name}"] = partial(flat.by_scipy, name, rtol=RTOL)
    for name in FAST_DIFFRAX if fast else DIFFRAX:
        found[f"diffrax {name}"] = partial(flat.by_diffrax, name, rtol=RTOL)
    return found


def flowsim_solve(flow: Full, setting: Setting, t1: float, rtol: float = RTOL) -> Any:
    """flowsim's own door, without events."""
    run = fs.integrate(flow, setting.theta0, t1, times=[t1], rtol=rtol)
    return np.asarray(ravel_pytree(run.final)[0]), run.stats["evaluations"]


def descents(setting: Setting, flow: Full, t1: float, exact: Any) -> Iterator[tuple]:
    """(name, seconds, steps, error) of gradient descent at both learning rates."""
    steps = int(np.ceil(t1 / (2 / largest_sharpness(setting, flow, t1))))
    if steps > MOST_STEPS:
        return
    seconds, error = descend(setting, t1, steps, exact)
    yield "descent, largest stable rate", seconds, steps, error
    while error > FIRST_ORDER and 4 * steps <= MOST_STEPS:
        steps *= 4
        seconds, error = descend(setting, t1, steps, exact)
    needed = int(np.ceil(steps * error / ACCURACY))
    yield f"descent, error {ACCURACY:g}", seconds * needed / steps, needed, ACCURACY


def largest_sharpness(setting: Setting, flow: Full, t1: float, rows: int = 30) -> float:
    """λ_max on the way, at the start and at times ever closer to the end."""
    times = t1 * (1 - np.append(np.geomspace(1, 1e-3, rows), 0.0))
    states = fs.integrate(flow, setting.theta0, t1, times=times, rtol=RTOL).states
    measured = jax.jit(lambda theta: sharpness(setting.net, setting.task, theta))
    return max(float(measured(jax.tree.map(lambda x: x[i], states))) for i in range(len(times)))  # noqa: B023


def descend(setting: Setting, t1: float, steps: int, exact: Any) -> tuple[float, float]:
    """Seconds of so many steps, compiled before, and the error at their end."""

    def call(steps: int) -> Any:
        return fs.train(
            setting.net, setting.task, setting.theta0, learning_rate=t1 / count, steps=steps,
            save_steps=[steps],
        ).final  # fmt: skip

    count = steps
    call(2)
    seconds, final = harness.seconds_of(partial(call, steps))
    return seconds, relative(np.asarray(ravel_pytree(final)[0]), exact)


if __name__ == "__main__":
    harness.run("full_model", partial(measure, large="--large" in sys.argv), __doc__)
