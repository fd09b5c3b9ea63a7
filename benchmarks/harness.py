"""What the benchmarks share: timing in turn, the machine, results as JSON and as a table.

A benchmark is a module with `measure(toy)`, which yields groups of rows (dictionaries), one lazy
group a problem, and a last line `harness.run(name, measure, __doc__)`. Rows that compare solvers of
one problem have the columns problem, solver, ms, times ours, digits, first call ms; a peer that is
absent has `left out`.
"""

import argparse
import importlib
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from benchmarks.machine import machine, peak_memory
from flowsim import storage
from flowsim.report import markdown_table

Row = dict[str, Any]
Group = Iterable[Row]
Calls = dict[str, Callable[[], Any]]
RESULTS = Path(__file__).parent / "results"
#: Short calls are timed in bursts of so many seconds.
BURST = 0.005
#: The solver that all others are compared with.
OURS = "flowsim"


class Timing(NamedTuple):
    """Wall seconds: of the first call, compilation included, and the median of later ones."""

    first: float
    median: float
    answer: Any


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds of one call, and what it returned."""
    start = time.perf_counter()
    answer = jax.block_until_ready(call())
    return time.perf_counter() - start, answer


def burst_of(call: Callable[[], Any], number: int) -> tuple[float, Any]:
    """Wall seconds of one call out of `number` in a row. If there are several, one more goes
    before: what a call costs after a rest (threads to wake, cold caches) is not its own."""
    if number > 1:
        jax.block_until_ready(call())
    start = time.perf_counter()
    for _ in range(number):
        answer = jax.block_until_ready(call())
    return (time.perf_counter() - start) / number, answer


def timings(
    calls: Calls, rounds: int, limit: float = math.inf, warm: Calls | None = None
) -> dict[str, Timing]:
    """Each call once to warm up, then in rounds in which each is timed once, so that a busy machine
    slows all alike; short calls are timed in bursts of about BURST seconds (the first round, which
    finds their number, does not count). A call whose rounds have taken `limit` seconds sits out the
    rest; where a call is long, `warm` holds short ones that compile the same."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    answers: dict[str, Any] = {}
    first = {name: seconds_of(call)[0] for name, call in (warm or calls).items()}
    numbers = dict.fromkeys(calls, 1)
    for _ in range(rounds):
        for name, call in calls.items():
            if sum(found[name]) * numbers[name] < limit or not found[name]:
                seconds, answers[name] = burst_of(call, numbers[name])
                found[name].append(seconds)
                numbers[name] = max(numbers[name], int(BURST / seconds))
    taken = {name: values[1:] or values for name, values in found.items()}
    return {
        name: Timing(first[name], statistics.median(taken[name]), answers[name]) for name in calls
    }


def medians(calls: Calls, rounds: int, limit: float = math.inf) -> dict[str, float]:
    """Median wall seconds of each call, by `timings`."""
    return {name: found.median for name, found in timings(calls, rounds, limit).items()}


def compared(
    problem: str,
    calls: Calls,
    rounds: int,
    reference: tuple[float, float] | None = None,
    limit: float = math.inf,
) -> list[Row]:
    """One row a solver; `reference` is what the calls should return, in two parts."""
    found = timings(calls, rounds, limit)
    ours = found[OURS].median
    return [
        {
            "problem": problem,
            "solver": name,
            "ms": 1e3 * timing.median,
            "times ours": timing.median / ours,
            "digits": None if reference is None else digits(timing.answer, *reference),
            "first call ms": 1e3 * timing.first,
        }
        for name, timing in found.items()
    ]


def left_out(problem: str, solver: str, why: str) -> Row:
    """A row for a peer that is not there."""
    return {"problem": problem, "solver": solver, "left out": why}


def missing(package: str, hint: str = "the extra `bench` has it") -> str | None:
    """Why a peer is left out; None if it can be imported."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        return f"no {package}: {error} ({hint})"
    return None


def digits(value: float, reference: float, rest: float = 0.0) -> float:
    """Correct decimal digits of a value against reference + rest, 17 at most."""
    error = abs((value - reference) - rest) / abs(reference)
    return 0.0 if math.isnan(error) else -math.log10(max(error, 1e-17))


def collected(groups: Iterable[Group], seconds: float = math.inf) -> Iterator[Row]:
    """The rows of groups until so many seconds have passed; then one more that says so."""
    began = time.monotonic()
    for group in groups:
        if time.monotonic() - began > seconds:
            yield left_out("what follows", "all", f"{seconds:.0f} s are spent")
            return
        yield from group


def save(name: str, rows: Iterable[Row], folder: Path, about: str = "") -> str:
    """Write `folder/name.json` and `folder/name.md`; the table."""
    rows = list(rows)
    folder.mkdir(parents=True, exist_ok=True)
    record = {"about": about, "machine": machine(), "peak_memory_mib": peak_memory(), "rows": rows}
    storage.write_text(folder / f"{name}.json", storage.json_text(record) + "\n")
    table = markdown_table(rows)
    storage.write_text(folder / f"{name}.md", table + "\n")
    return table


def run(
    name: str, measure: Callable[[bool], Iterable[Group]], about: str, *, inline: bool = False
) -> Path | None:
    """The command line of one benchmark; the folder of its results, if they are kept.

    inline: JAX computes in the calling thread, for all its users alike, instead of handing each
        call to a worker: what one sets for many small calls.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--toy", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="folder of the results (toy ones: not kept)")
    parser.add_argument("--large", action="store_true", help="the largest sizes too")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no row after these")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if inline:
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    folder = options.out or (None if options.toy else RESULTS)
    rows: list[Row] = []
    for row in collected(measure(options.toy), options.seconds):
        rows.append(row)
        if folder is not None:  # what is measured is kept, whatever happens next
            save(name, rows, folder, about.strip())
    print(markdown_table(rows))
    return folder
