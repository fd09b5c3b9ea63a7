"""One blow-up time: flowsim against heyoka, SciPy, SUNDIALS, diffrax, torchdiffeq, and against the
symmetric eigendecomposition.

    python -m benchmarks.blow_up_single [--toy] [--out FOLDER]

All solvers of one problem are timed in turn, compiled and warm; `digits` are those of T* that agree
with double-double references (`exact_times`). "weights" is the full matrix flow, weights in, T*
out; "reduced system" is the Garnier system in the eigenbasis of A, for flowsim too. Runge–Kutta and
multistep codes run at rtol 1e-9, heyoka at 1e-16; Jacobians are theirs, so that implicit codes get
the full flow up to h = 16 only.
"""

from collections.abc import Iterator
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

WIDTHS, TOY = (3, 16, 64, 256, 1024), (3,)
SEED = 0
#: Up to here implicit codes take the full flow, and heyoka compiles in a few seconds.
MOST_IMPLICIT, MOST_COMPILED = 16, 64
#: Beyond, only the quickest code takes the full flow (DOP853 would take minutes).
MOST_FULL = 256
EXPLICIT = {"DOP853": peers.by_scipy, "LSODA": peers.by_scipy, "CVODE Adams": peers.by_sundials}
IMPLICIT = {"Radau": peers.by_scipy, "CVODE BDF": peers.by_sundials}
DIFFRAX = ("Tsit5", "Dopri8")
TORCH = "pip install torchdiffeq, which brings PyTorch"


def measure(toy: bool = False) -> Iterator[harness.Row]:
    """All rows, by width."""
    for h in TOY if toy else WIDTHS:
        rounds, limit = (1, 0.1) if toy else (50, 3.0)
        yield from reduced(h, rounds, limit)
        yield from from_weights(h, rounds, limit)
        if toy or h == max(WIDTHS):
            yield from eigendecomposition(h, 1 if toy else 5)


def reduced(h: int, rounds: int, limit: float) -> list[harness.Row]:
    """The same reduced system, in the eigenbasis of A, for all."""
    from flowsim.blow_up import reduced_blow_up_time

    q, p, A, D = reduction(*short_gaussians(SEED, h, h))
    alpha, basis = np.linalg.eigh(A)
    system = basis.T @ q, basis.T @ p, alpha, np.float64(D)
    calls: harness.Calls = {harness.OURS: lambda: float(reduced_blow_up_time(*system).time)}
    absent = {}
    if h <= MOST_COMPILED:
        absent["heyoka"] = harness.missing("heyoka")
        if absent["heyoka"] is None:
            calls["heyoka"] = peers.by_heyoka(*system)
    absent |= _added(calls, peers.reduced_system(*system), EXPLICIT | IMPLICIT)
    problem = f"reduced system, h = {h}"
    rows = harness.compared(problem, calls, rounds, exact_reduced_time(*system), limit)
    return rows + _left_out(problem, absent)


def from_weights(h: int, rounds: int, limit: float) -> list[harness.Row]:
    """The full matrix flow: the whole door, weights in, `BlowUp` out."""
    weights = short_gaussians(SEED, h, h)
    calls: harness.Calls = {harness.OURS: door(weights)}
    flow, absent = peers.full_flow(*weights), {}
    if h > MOST_FULL:
        absent = _added(calls, flow, {"CVODE Adams": peers.by_sundials})
    else:
        absent = _added(calls, flow, EXPLICIT | (IMPLICIT if h <= MOST_IMPLICIT else {}))
        calls |= {f"diffrax {name}": peers.by_diffrax(flow, name) for name in DIFFRAX}
        absent["torchdiffeq dopri8"] = harness.missing("torchdiffeq", TORCH)
        if absent["torchdiffeq dopri8"] is None:
            calls["torchdiffeq dopri8"] = peers.by_torchdiffeq(flow, "dopri8")
    problem = f"weights, h = m = {h}"
    rows = harness.compared(problem, calls, rounds, exact_blow_up_time(*weights), limit)
    return rows + _left_out(problem, absent)


def eigendecomposition(h: int, rounds: int) -> list[harness.Row]:
    """flowsim against the symmetric eigendecomposition of A alone."""
    weights = short_gaussians(SEED, h, h)
    A = reduction(*weights)[2]
    eigh, A_here = jax.jit(jnp.linalg.eigh), jnp.asarray(A)
    calls = {
        harness.OURS: door(weights),
        "eigh (NumPy)": lambda: np.linalg.eigh(A),
        "eigh (JAX)": lambda: eigh(A_here),
    }
    return harness.compared(f"T* against eigh of A, h = m = {h}", calls, rounds)


def door(weights: Any) -> Any:
    """flowsim's call for some weights."""
    from flowsim.blow_up import blow_up_time

    return lambda: float(blow_up_time(*weights).time)


def _added(calls: harness.Calls, problem: peers.Problem, makers: dict) -> dict[str, str | None]:
    """Add each solver that is installed; why the others are not."""
    absent = {}
    for name, maker in makers.items():
        absent[name] = harness.missing("sksundae" if maker is peers.by_sundials else "scipy")
        if absent[name] is None:
            calls[name] = maker(problem, name.removeprefix("CVODE "))
    return absent


def _left_out(problem: str, absent: dict[str, str | None]) -> list[harness.Row]:
    return [harness.left_out(problem, name, why) for name, why in absent.items() if why]


if __name__ == "__main__":
    harness.run("blow_up_single", measure, __doc__)
