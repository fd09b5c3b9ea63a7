"""On a GPU, where JAX sees one: one gradient and an ensemble, GPU against CPU.

    python -m benchmarks.gpu [--toy] [--out FOLDER]

The same compiled functions on both devices, in float64; elsewhere one row that says so.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import harness
from benchmarks.gradient import problem
from flowsim.ensemble.cache import lanes_for
from flowsim.ensemble.gaussian import block_size, gaussian_chains
from flowsim.ensemble.lanes import blow_up_times

ROUNDS = 9
WIDTHS, COUNTS = (64, 640), (10_000, 100_000)


def gpus() -> list[Any]:
    """The GPUs that JAX sees."""
    try:
        return jax.devices("gpu")
    except RuntimeError:
        return []


def on_both(name: str, function: Any, arguments: Any, rounds: int) -> Iterator[harness.Row]:
    """One function on CPU and GPU."""
    devices = {"CPU": jax.devices("cpu")[0], "GPU": gpus()[0]}
    placed = {kind: jax.device_put(arguments, device) for kind, device in devices.items()}
    compiled = jax.jit(function)
    calls = {kind: lambda kind=kind: compiled(*placed[kind]) for kind in devices}
    seconds = harness.medians(calls, rounds)
    for kind, value in seconds.items():
        yield {
            "problem": name,
            "device": str(devices[kind].device_kind),
            "ms": 1e3 * value,
            "times the GPU": value / seconds["GPU"],
        }


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """All rows, or why there are none."""
    if not gpus():
        yield [harness.left_out("everything", "GPU", "JAX sees no GPU on this machine")]
        return
    rounds = 1 if toy else ROUNDS
    for width in (4,) if toy else WIDTHS:
        flow, theta = problem(1000, 10, width)
        rate = lambda flow, theta: flow.rate(0.0, theta)  # noqa: E731
        yield on_both(f"gradient, n = 1000, d = {width}", rate, (flow, theta), rounds)
    for count in (8,) if toy else COUNTS:
        rounded = -(-count // block_size(8, 8)) * block_size(8, 8)
        chains = gaussian_chains(jax.random.key(0), jnp.asarray(0), rounded, 8, 8)
        solve = lambda chains, count: blow_up_times(chains, count, lanes_for(8))  # noqa: E731
        yield on_both(f"{count} starts, h = 8", solve, (chains, jnp.asarray(count)), rounds)


if __name__ == "__main__":
    harness.run("gpu", measure, __doc__)
