"""One blow-up time: flowsim against heyoka, SciPy, SUNDIALS, diffrax, torchdiffeq, and against the
symmetric eigendecomposition.

    python -m benchmarks.blow_up_single [--toy] [--out FOLDER]

All solvers of one problem are timed in turn, compiled and warm; `digits` are those of T* that agree
with double-double references (`exact_times`). "weights" is the full matrix flow, weights in, T*
out; "reduced system" is the Garnier system in the eigenbasis of A, for flowsim too. Runge–Kutta and
multistep codes run at rtol 1e-9, heyoka at 1e-16; Jacobians are theirs, so that implicit codes get
the full flow up to h = 16 only. At h = 1024, 10⁶ unknowns, no other code takes the full flow.

JAX computes in the calling thread, for flowsim and diffrax alike (`jax_cpu_enable_async_dispatch`
is off): by default it hands each call to a worker thread, which costs some tens of microseconds.
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
#: Up to here implicit codes take the full flow, and they and heyoka the reduced system: their
#: Jacobians, and its compilation, take long.
MOST_IMPLICIT, MOST_REDUCED = 16, 64
#: Beyond, nothing but flowsim takes the full flow: 10⁶ unknowns.
MOST_FULL = 256
EXPLICIT = {"DOP853": peers.by_scipy, "LSODA": peers.by_scipy, "CVODE Adams": peers.by_sundials}
IMPLICIT = {"Radau": peers.by_scipy, "CVODE BDF": peers.by_sundials}
DIFFRAX = ("Tsit5", "Dopri8")
TORCH = "not in the extra `bench`, for it brings PyTorch, gigabytes; pip install torchdiffeq"


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """All rows, by width."""
    for h in TOY if toy else WIDTHS:
        rounds, limit = (1, 0.1) if toy else (21, 1.0)
        yield reduced(h, rounds, limit)
        yield from_weights(h, rounds, limit)
        if toy or h == max(WIDTHS):
            yield eigendecomposition(h, 1 if toy else 5)


def reduced(h: int, rounds: int, limit: float) -> Iterator[harness.Row]:
    """The same reduced system, in the eigenbasis of A, for all."""
    from flowsim.blow_up import reduced_blow_up_time

    q, p, A, D = reduction(*short_gaussians(SEED, h, h))
    alpha, basis = np.linalg.eigh(A)
    system = basis.T @ q, basis.T @ p, alpha, np.float64(D)
    calls: harness.Calls = {harness.OURS: lambda: float(reduced_blow_up_time(*system).time)}
    absent = {}
    if h <= MOST_REDUCED:
        absent["heyoka"] = harness.missing("heyoka")
        if absent["heyoka"] is None:
            calls["heyoka"] = peers.by_heyoka(*system)
    others = EXPLICIT | (IMPLICIT if h <= MOST_REDUCED else {})
    absent |= _added(calls, peers.reduced_system(*system), others)
    problem = f"reduced system, h = {h}"
    yield from harness.compared(problem, calls, rounds, exact_reduced_time(*system), limit)
    yield from _left_out(problem, absent)


def from_weights(h: int, rounds: int, limit: float) -> Iterator[harness.Row]:
    """The full matrix flow: the whole door, weights in, `BlowUp` out."""
    weights = short_gaussians(SEED, h, h)
    calls: harness.Calls = {harness.OURS: door(weights)}
    absent: dict[str, str | None] = {}
    if h <= MOST_FULL:
        flow = peers.full_flow(*weights)
        absent = _added(calls, flow, of_full_flow(h))
        calls |= {f"diffrax {name}": peers.by_diffrax(flow, name) for name in DIFFRAX}
        absent["torchdiffeq dopri8"] = harness.missing("torchdiffeq", TORCH)
        if absent["torchdiffeq dopri8"] is None:
            calls["torchdiffeq dopri8"] = peers.by_torchdiffeq(flow, "dopri8")
    problem = f"weights, h = m = {h}"
    yield from harness.compared(problem, calls, rounds, exact_blow_up_time(*weights), limit)
    yield from _left_out(problem, absent)


def of_full_flow(h: int) -> dict[str, Any]:
    """Codes that can: LSODA sets memory aside for a Jacobian from the start."""
    explicit = {name: maker for name, maker in EXPLICIT.items() if name != "LSODA"}
    if h > MOST_REDUCED:
        return explicit
    return EXPLICIT | (IMPLICIT if h <= MOST_IMPLICIT else {})


def eigendecomposition(h: int, rounds: int) -> Iterator[harness.Row]:
    """flowsim against the symmetric eigendecomposition of A alone."""
    weights = short_gaussians(SEED, h, h)
    A = reduction(*weights)[2]
    eigh, A_here = jax.jit(jnp.linalg.eigh), jnp.asarray(A)
    calls = {
        harness.OURS: door(weights),
        "eigh (NumPy)": lambda: np.linalg.eigh(A),
        "eigh (JAX)": lambda: eigh(A_here),
    }
    yield from harness.compared(f"T* against eigh of A, h = m = {h}", calls, rounds)


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
    harness.run("blow_up_single", measure, __doc__, inline=True)
