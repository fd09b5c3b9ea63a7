"""The right-hand side of the reduced system, q̈ = (2‖q‖² − D) q − A q, against memory bandwidth.

    python -m benchmarks.bandwidth [--toy] [--out FOLDER]

With A dense it reads A once, 8h² bytes; with A in its eigenbasis it reads α and q and writes q̈,
24h bytes. The limit is the faster of a copy (two streams) and a dot product of a vector with itself
(one stream), on arrays of the same size, all timed in turn; `share` is of that limit.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import harness
from flowsim.blow_up.reduction import Garnier

#: Larger than any cache: 128 MiB of A, 240 MB in the eigenbasis.
DENSE, DIAGONAL, TOY = 4096, 10_000_000, 32
ROUNDS = 21
BYTES = 8


def right_hand_side(system: Garnier) -> Any:
    """q̈ of a system's start, as the series begins with it."""
    q = system.position
    return (2 * jnp.sum(q[0] * q[0]) - system.shift) * q - system.curved(q)


def case(problem: str, curvature: Any, traffic: int, rounds: int) -> Iterator[harness.Row]:
    """One row: time, traffic a second, share of the limit."""
    q = jnp.ones(curvature.shape[-1])
    system = Garnier.of(q, q, jnp.asarray(curvature), jnp.asarray(-1.0))
    flat = np.ones(traffic // BYTES // (1 if curvature.ndim == 2 else 3))
    copy = np.empty_like(flat)
    rate = jax.jit(right_hand_side)
    seconds = harness.medians(
        {
            "rate": lambda: rate(system),
            "copy": lambda: np.copyto(copy, flat),
            "dot": lambda: flat @ flat,
        },
        rounds,
    )
    limit = max(2 * flat.nbytes / seconds["copy"], flat.nbytes / seconds["dot"])
    speed = traffic / seconds["rate"]
    yield {
        "problem": problem,
        "ms": 1e3 * seconds["rate"],
        "GB/s": speed / 1e9,
        "limit GB/s": limit / 1e9,
        "share": speed / limit,
    }


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """A dense, and A in its eigenbasis."""
    h, n, rounds = (TOY, TOY, 1) if toy else (DENSE, DIAGONAL, ROUNDS)
    dense = np.random.default_rng(0).normal(size=(h, h))
    yield case(f"A dense, h = {h}", dense + dense.T, BYTES * h * h, rounds)
    yield case(f"A in its eigenbasis, h = {n}", np.linspace(-1, 1, n), 3 * BYTES * n, rounds)


if __name__ == "__main__":
    harness.run("bandwidth", measure, __doc__)
