"""The stiff late phase, after stage 2: explicit against implicit solvers.

    python -m benchmarks.stiff [--toy] [--out FOLDER]

The planted task, tanh, ε = 1e-2, from the end of `simulate` on, at rtol 1e-6, with small d:
implicit methods factor Jacobians of all 5d² weights. flowsim's explicit and implicit solvers,
SciPy's on the same compiled gradient and Jacobian. `digits` are those of the final state against
rtol 1e-11; `times ours` compares with dopri8, the default.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from jax.flatten_util import ravel_pytree

import flowsim as fs
from benchmarks import harness
from benchmarks.flat_flow import FlatFlow
from benchmarks.full_model import RTOL, SCALE, relative
from flowsim.experiments.setting import Setting, TwoStage
from flowsim.flows import Full

WIDTHS, TOY = (4, 8), 3
#: The phase that is timed ends at this multiple of its start.
SPAN = 1.2
EXPLICIT, IMPLICIT = ("dopri8", "tsit5", "dopri5"), ("kvaerno5",)
SCIPY = ("DOP853", "LSODA", "BDF", "Radau")
EXACT = 1e-11


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """One row a solver and width; a toy starts anywhere."""
    for width in (TOY,) if toy else WIDTHS:
        setting = Setting(TwoStage(task="gaussian", width=width, scale=SCALE))
        if toy:
            yield rows(setting, setting.theta0, (0.0, 1.0), (EXPLICIT[0], "BDF"))
            return
        run = fs.simulate(setting.net, setting.task, setting.theta0, rtol=RTOL, times=[0.0])
        t0 = float(run.times[-1])
        names = (*EXPLICIT, *SCIPY, *IMPLICIT)
        yield rows(setting, run.final, (t0, SPAN * t0), names)


def rows(setting: Setting, start: Any, span: tuple[float, float], names: tuple[str, ...]) -> Any:
    """Each solver is compiled by a thousandth of the phase, then timed once."""
    flow, (t0, t1) = Full(setting.net, setting.task), span
    problem = f"planted task, d = {setting.task.width}, t = {t0:.3g} to {t1:.3g}"
    flat = FlatFlow(flow, start)
    flat.jacobian(flat.vector)
    solvers = {name: _solver(name, flow, start, flat, t0) for name in names}
    exact = by_flowsim(flow, start, names[0], t1, EXACT, t0)[0]
    seconds = {}
    for name, solve in solvers.items():
        solve(t0 + (t1 - t0) / 1000, RTOL)
        seconds[name], (vector, evaluations) = harness.seconds_of(partial(solve, t1, RTOL))
        yield {
            "problem": problem,
            "solver": f"SciPy {name}" if name in SCIPY else f"{harness.OURS} {name}",
            "ms": 1e3 * seconds[name],
            "times ours": seconds[name] / seconds[names[0]],
            "digits": -np.log10(max(relative(vector, exact), 1e-17)),
            "evaluations": evaluations,
        }


def _solver(name: str, flow: Full, start: Any, flat: FlatFlow, t0: float) -> Any:
    if name in SCIPY:
        return lambda t1, rtol: flat.by_scipy(name, t1, rtol, t0)
    return lambda t1, rtol: by_flowsim(flow, start, name, t1, rtol, t0)


def by_flowsim(flow: Full, start: Any, name: str, t1: float, rtol: float, t0: float) -> Any:
    """The final state as a vector, and the evaluations (unknown for implicit solvers)."""
    run = fs.integrate(flow, start, t1, t0=t0, times=[t1], rtol=rtol, solver=name)
    return np.asarray(ravel_pytree(run.final)[0]), run.stats["evaluations"]


if __name__ == "__main__":
    harness.run("stiff", measure, __doc__)
