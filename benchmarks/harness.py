"""What the benchmarks share: timing in turn, the machine, results as JSON and as a table."""

import argparse
import importlib.metadata
import importlib.util
import math
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from flowsim import storage
from flowsim.report import markdown_table

RESULTS = Path(__file__).parent / "results"
VERSIONS = ("flowsim", "jax", "jaxlib", "diffrax", "numpy", "scipy", "heyoka")


def medians(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median wall seconds of each call. All are warmed up first; then every round times each once,
    so that a busy machine slows all alike."""
    for call in calls.values():
        jax.block_until_ready(call())
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            found[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def missing(package: str) -> str | None:
    """Why a peer is left out; None if it is there."""
    found = importlib.util.find_spec(package) is not None
    return None if found else f"{package} is not installed (the extra `bench` has it)"


def digits(value: float, reference: float, rest: float = 0.0) -> float:
    """Correct decimal digits of a value against reference + rest, 17 at most."""
    error = abs((value - reference) - rest) / abs(reference)
    return 0.0 if math.isnan(error) else -math.log10(max(error, 1e-17))


def machine() -> dict[str, Any]:
    """Processor, threads, how busy it is, and versions."""
    versions = {}
    for package in VERSIONS:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "thread_settings": {
            name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "XLA_FLAGS")
        },
        "load_average": os.getloadavg()[0],
        "device": jax.devices()[0].platform,
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def peak_memory() -> float:
    """The largest resident size of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def save(name: str, rows: Sequence[dict[str, Any]], folder: Path) -> str:
    """Write `folder/name.json` and `folder/name.md`; the table."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "peak_memory_mib": peak_memory(), "rows": list(rows)}
    storage.write_text(folder / f"{name}.json", storage.json_text(record) + "\n")
    table = markdown_table(rows)
    storage.write_text(folder / f"{name}.md", table + "\n")
    return table


def run(name: str, measure: Callable[[bool], Sequence[dict[str, Any]]], about: str) -> None:
    """The command line of one benchmark: `--toy` for tiny sizes, `--out` for another folder."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--toy", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="folder of the results (toy ones: not kept)")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = measure(options.toy)
    if options.toy and options.out is None:
        print(markdown_table(rows))
    else:
        print(save(name, rows, options.out or RESULTS))
