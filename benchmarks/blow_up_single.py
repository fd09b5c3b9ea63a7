"""One blow-up time: flowsim against heyoka, SciPy, diffrax and the symmetric eigendecomposition.

    python -m benchmarks.blow_up_single [--toy] [--out FOLDER]

All solvers of one problem are timed in turn, compiled and warm; `digits` are those of T* that agree
with double-double references (`exact_times`). `first call` is a fresh process: the first answer,
compilation included, the import apart.
"""

import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import blow_up_peers as peers
from benchmarks import harness
from benchmarks.exact_times import (
    exact_blow_up_time,
    exact_reduced_time,
    reduction,
    short_gaussians,
)

REDUCED, FULL, LARGE = (16, 64), 256, 1024
SEED = 0
FIRST_CALL = """
import time
began = time.perf_counter()
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
import flowsim as fs
imported, used = time.perf_counter(), time.process_time()
rng = np.random.default_rng(0)
fs.blow_up_time(rng.normal(size={h}), rng.normal(size=({h}, {h})), rng.normal(size={h}))
print(imported - began, time.perf_counter() - imported, time.process_time() - used)
"""


def compared(problem: str, calls: dict, reference, rounds: int) -> list[dict[str, Any]]:
    """One row a solver: milliseconds, how many times ours, correct digits."""
    seconds = harness.medians(calls, rounds)
    ours = seconds["flowsim"]
    return [
        {
            "problem": problem,
            "solver": name,
            "ms": 1e3 * seconds[name],
            "times ours": seconds[name] / ours,
            "digits": None if reference is None else harness.digits(call(), *reference),
        }
        for name, call in calls.items()
    ]


def left_out(problem: str, solver: str, why: str) -> dict[str, Any]:
    """A row for a peer that is not there."""
    return {"problem": problem, "solver": solver, "left out": why}


def reduced(h: int, rounds: int) -> list[dict[str, Any]]:
    """The same reduced system, in the eigenbasis of A, for flowsim and heyoka."""
    from flowsim.blow_up import reduced_blow_up_time

    q, p, A, D = reduction(*short_gaussians(SEED, h, h))
    alpha, basis = np.linalg.eigh(A)
    system = basis.T @ q, basis.T @ p, alpha, np.float64(D)
    problem = f"reduced system, h = {h}"
    calls = {"flowsim": lambda: float(reduced_blow_up_time(*system).time)}
    why = harness.missing("heyoka")
    if why is None:
        calls["heyoka"] = peers.heyoka_reduced(*system)
    rows = compared(problem, calls, exact_reduced_time(*system), rounds)
    return rows if why is None else [*rows, left_out(problem, "heyoka", why)]


def from_matrices(h: int, rounds: int) -> list[dict[str, Any]]:
    """The whole door, weights in, `BlowUp` out."""
    weights = short_gaussians(SEED, h, h)
    reference = exact_blow_up_time(*weights)
    return compared(f"weights, h = m = {h}", {"flowsim": _door(weights)}, reference, rounds)


def full(h: int, rounds: int) -> list[dict[str, Any]]:
    """flowsim against Runge–Kutta codes on the full matrix flow."""
    weights = short_gaussians(SEED, h, h)
    calls = {
        "flowsim": _door(weights),
        "DOP853": peers.scipy_full(*weights),
        "diffrax Tsit5": peers.diffrax_full(*weights, "Tsit5"),
        "diffrax Dopri8": peers.diffrax_full(*weights, "Dopri8"),
    }
    return compared(f"weights, h = m = {h}", calls, exact_blow_up_time(*weights), rounds)


def large(h: int, rounds: int) -> list[dict[str, Any]]:
    """flowsim against the symmetric eigendecomposition of A alone."""
    weights = short_gaussians(SEED, h, h)
    A = reduction(*weights)[2]
    eigh, A_here = jax.jit(jnp.linalg.eigh), jnp.asarray(A)
    calls = {
        "flowsim": _door(weights),
        "eigh (NumPy)": lambda: np.linalg.eigh(A),
        "eigh (JAX)": lambda: eigh(A_here),
    }
    problem = f"weights, h = m = {h}"
    rows = compared(problem, calls, None, rounds)
    rows[0]["digits"] = harness.digits(calls["flowsim"](), *exact_blow_up_time(*weights))
    return rows


def _door(weights):
    from flowsim.blow_up import blow_up_time

    return lambda: float(blow_up_time(*weights).time)


def first_call(h: int) -> dict[str, Any]:
    """Times of the import and of the first answer, in a fresh process; on a busy machine the
    processor's is the one to read."""
    command = [sys.executable, "-c", FIRST_CALL.format(h=h)]
    began = time.perf_counter()
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    imported, answered, used = map(float, text.split())
    return {
        "problem": f"first call, h = m = {h}",
        "solver": "flowsim",
        "ms": 1e3 * answered,
        "processor ms": 1e3 * used,
        "import ms": 1e3 * imported,
        "process ms": 1e3 * (time.perf_counter() - began),
    }


def measure(toy: bool = False) -> list[dict[str, Any]]:
    """All rows."""
    if toy:
        return [*reduced(3, 2), *full(3, 1), *large(3, 1)]
    rows = [row for h in REDUCED for row in reduced(h, 100) + from_matrices(h, 100)]
    return [*rows, *full(FULL, 5), *large(LARGE, 5), first_call(8), first_call(FULL)]


if __name__ == "__main__":
    harness.run("blow_up_single", measure, __doc__)
