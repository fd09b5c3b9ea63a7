"""Work and precision of one blow-up time: correct digits of T* against time, over tolerances.

    python -m benchmarks.work_precision [--toy] [--out FOLDER]

Weights of h = m = 16 (`weights`: the full matrix flow) and their reduced system, as in
`blow_up_single`; flowsim has no tolerance, so it is one point. With the results kept, a figure too.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import blow_up_peers as peers
from benchmarks import harness
from benchmarks.blow_up_single import SEED, door
from benchmarks.exact_times import exact_blow_up_time, reduction, short_gaussians
from flowsim import storage
from flowsim.report.canvas import legend_below, new_figure
from flowsim.report.saving import save_figure
from flowsim.report.style import TWO_COLUMNS, figure_style

WIDTH, TOY_WIDTH = 16, 2
TOLERANCES = 10.0 ** -np.arange(4, 14)
METHODS = {
    "DOP853": ("scipy", peers.by_scipy),
    "LSODA": ("scipy", peers.by_scipy),
    "Radau": ("scipy", peers.by_scipy),
    "CVODE Adams": ("sksundae", peers.by_sundials),
    "CVODE BDF": ("sksundae", peers.by_sundials),
    "diffrax Tsit5": ("diffrax", peers.by_diffrax),
    "diffrax Dopri8": ("diffrax", peers.by_diffrax),
    "torchdiffeq dopri8": ("torchdiffeq", peers.by_torchdiffeq),
}
#: Implicit codes difference a Jacobian of the full flow: too slow to be of use at h = 16.
REDUCED_ONLY = ("Radau", "CVODE BDF")
#: Its finer runs take seconds each and gain no digit.
MOST_RADAU = 6
FLOW, REDUCED = "weights", "reduced system"
#: Colour and marker of a solver: ours is a black star.
LOOKS = {
    harness.OURS: ("#000000", "*"),
    "heyoka": ("#0072B2", "o"),
    "DOP853": ("#D55E00", "^"),
    "LSODA": ("#E69F00", "v"),
    "Radau": ("#7A5C00", "X"),
    "CVODE Adams": ("#009E73", "D"),
    "CVODE BDF": ("#00503A", "d"),
    "diffrax Tsit5": ("#56B4E9", "s"),
    "diffrax Dopri8": ("#332288", "P"),
    "torchdiffeq dopri8": ("#CC79A7", "p"),
}


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """Rows of solver, rtol, ms and digits for both forms of the problem."""
    h, tolerances = (TOY_WIDTH, TOLERANCES[3:4]) if toy else (WIDTH, TOLERANCES)
    rounds, limit = (1, 0.05) if toy else (25, 0.4)
    for form in (REDUCED, FLOW):
        yield measured(h, form, tolerances, rounds, limit)


def measured(
    h: int, form: str, tolerances: Sequence[float], rounds: int, limit: float
) -> Iterator[harness.Row]:
    """All solvers of one form, in turn."""
    prepared = list(solvers(h, form, tolerances))
    calls = {str(i): call for i, (_, _, call) in enumerate(prepared)}
    exact = exact_blow_up_time(*short_gaussians(SEED, h, h))
    found = harness.timings(calls, rounds, limit)
    for (name, rtol, _), timing in zip(prepared, found.values(), strict=True):
        yield {
            "problem": f"{form}, h = {h}",
            "solver": name,
            "rtol": rtol,
            "ms": 1e3 * timing.median,
            "digits": harness.digits(timing.answer, *exact),
        }


def solvers(h: int, form: str, tolerances: Sequence[float]) -> Iterator[tuple[str, Any, Any]]:
    """(name, rtol, call) of every solver that is installed."""
    from flowsim.blow_up import reduced_blow_up_time

    weights = short_gaussians(SEED, h, h)
    q, p, A, D = reduction(*weights)
    alpha, basis = np.linalg.eigh(A)
    system = basis.T @ q, basis.T @ p, alpha, np.float64(D)
    if form == REDUCED:
        yield harness.OURS, None, lambda: float(reduced_blow_up_time(*system).time)
        problem = peers.reduced_system(*system)
        if harness.missing("heyoka") is None:
            solve = peers.by_heyoka(*system)
            for rtol in (*tolerances[::3], 1e-16):
                yield "heyoka", rtol, partial(solve, rtol)
    else:
        yield harness.OURS, None, door(weights)
        problem = peers.full_flow(*weights)
    for name, (package, maker) in METHODS.items():
        if harness.missing(package) is None and not (form == FLOW and name in REDUCED_ONLY):
            solve = maker(problem, name.split()[-1])
            for rtol in tolerances[: MOST_RADAU if name == "Radau" else None]:
                yield name, rtol, partial(solve, rtol)


def draw(rows: Sequence[harness.Row]) -> Any:
    """Digits against milliseconds, one panel a form of the problem."""
    with figure_style():
        figure = new_figure(TWO_COLUMNS, 3.4)
        panels = figure.subplots(1, 2, sharey=True, sharex=True)
        for ax, problem in zip(panels, dict.fromkeys(row["problem"] for row in rows), strict=True):
            work_precision([row for row in rows if row["problem"] == problem], ax)
            ax.set_title(problem)
        panels[1].set_ylabel("")
    return figure


def work_precision(rows: Sequence[harness.Row], ax: Any) -> Any:
    """Curves of one problem; a solver keeps its colour and marker between panels."""
    for name, (colour, marker) in LOOKS.items():
        chosen = [row for row in rows if row["solver"] == name]
        if chosen:
            x, y = zip(*((row["ms"], row["digits"]) for row in chosen), strict=True)
            big = {"markersize": 11, "zorder": 3} if name == harness.OURS else {"markersize": 4}
            ax.plot(x, y, color=colour, marker=marker, lw=1, label=name, **big)
    ax.set_xscale("log")
    ax.set_xlabel("time (ms)")
    ax.set_ylabel("correct digits of $T^*$")
    legend_below(ax)
    return ax


def main() -> None:
    """Measure, save, draw."""
    folder = harness.run("work_precision", measure, __doc__, inline=True)
    if folder is not None:
        rows = storage.read_json(folder / "work_precision.json")["rows"]
        save_figure(draw(rows), folder, "work_precision")


if __name__ == "__main__":
    main()
