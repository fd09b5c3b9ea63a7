"""What a user waits for: imports, first and second calls, `flowsim blowup` as a whole process.

    python -m benchmarks.first_result [--toy] [--out FOLDER]

Every figure is of fresh processes, taken in turn; medians. Processor seconds (of all threads) stand
beside wall seconds, since they do not depend on how busy the machine is. `ratio` of an import is to
that of diffrax; `bound` is what the project asks for.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import harness

ROUNDS = 7
COLD, WARM, IMPORT = 4.0, 2.0, 1.3
MODULES = ("diffrax", "flowsim", "flowsim.cli", "jax")
CALLS = """
import time
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
import flowsim as fs
rng = np.random.default_rng(0)
weights = rng.normal(size={h}), rng.normal(size=({h}, {h})), rng.normal(size={h})
for _ in range(2):
    began, used = time.perf_counter(), time.process_time()
    {call}
    print(time.perf_counter() - began, time.process_time() - used)
"""
BLOW_UP = "fs.blow_up_time(*weights)"
SIMULATE = (
    "fs.simulate(fs.OneLayerTransformer(), fs.tasks.gaussian(), "
    "fs.gaussian_parameters(jax.random.key(0), 16, scale=1e-2))"
)
FIRST_CALLS = {
    "blow_up_time, h = 8": (BLOW_UP, 8),
    "blow_up_time, h = 256": (BLOW_UP, 256),
    "simulate, d = 16": (SIMULATE, 16),
}
FIRST_BOUND = 2.0


def processor_seconds(command: list[str], **environment: str) -> tuple[float, float]:
    """Wall and processor seconds of a process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ) | environment
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return wall, user + system


def medians(commands: dict[str, list[str]], rounds: int, **environment: str) -> dict:
    """(wall, processor) seconds of each command, in turn."""
    found: dict[str, list] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(processor_seconds(command, **environment))
    return {
        name: tuple(map(statistics.median, zip(*pairs, strict=True)))
        for name, pairs in found.items()
    }


def imports(rounds: int) -> Iterator[harness.Row]:
    """Interpreter start included."""
    commands = {name: [sys.executable, "-c", f"import {name}"] for name in MODULES}
    found = medians(commands, rounds)
    for name, (wall, used) in found.items():
        yield {
            "what": f"import {name}",
            "seconds": wall,
            "processor seconds": used,
            "ratio": wall / found["diffrax"][0],
            "bound": IMPORT if name == "flowsim" else None,
        }


def calls(names: list[str], rounds: int) -> Iterator[harness.Row]:
    """First calls compile; second ones do not."""
    for name in names:
        code, h = FIRST_CALLS[name]
        command = [sys.executable, "-c", CALLS.format(h=h, call=code)]
        texts = [
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for _ in range(rounds)
        ]
        numbers = [[float(x) for x in text.split()] for text in texts]
        first, used, second, _ = map(statistics.median, zip(*numbers, strict=True))
        bound = FIRST_BOUND if "blow_up" in name else None
        row = {"what": f"first call, {name}", "seconds": first, "processor seconds": used}
        yield row | {"bound": bound}
        yield {"what": f"second call, {name}", "seconds": second}


def whole_processes(rounds: int) -> Iterator[harness.Row]:
    """`flowsim blowup` without a compilation cache, and with one that is warm."""
    command = [sys.executable, "-m", "flowsim", "blowup", "--width", "16"]
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder) / "cache")
        processor_seconds(command, FLOWSIM_CACHE=cache)
        states = {"cold": ("", COLD), "cache warm": (cache, WARM)}
        found = {
            name: medians({name: command}, rounds, FLOWSIM_CACHE=where)[name]
            for name, (where, _) in states.items()
        }
    for name, (wall, used) in found.items():
        yield {
            "what": f"flowsim blowup --width 16, {name}",
            "seconds": wall,
            "processor seconds": used,
            "bound": states[name][1],
        }


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """All rows."""
    rounds = 1 if toy else ROUNDS
    yield imports(rounds)
    if not toy:
        yield calls(list(FIRST_CALLS), 3)
        yield whole_processes(3)


if __name__ == "__main__":
    harness.run("first_result", measure, __doc__)
