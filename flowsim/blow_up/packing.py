"""The scalars of a result in one vector: what a call from the host waits for."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flowsim.blow_up.scaling import times_power_of_two
from flowsim.blow_up.verdict import Verdict

#: How many numbers `packed_scalars` holds.
SCALARS = 6
#: A number on the host, an array under `jit` and `vmap`.
Number = float | np.floating | Float[Array, "..."]
Count = int | np.integer | Int[Array, "..."]


def packed_scalars(
    times: Float[Array, "3"],
    energy: Float[Array, ""],
    verdict: Int[Array, ""],
    steps: Int[Array, ""],
    exponent: Int[Array, ""],
) -> Float[Array, "6"]:
    """Time, lower, upper and energy in original units, verdict and steps: one vector.

    One array instead of many makes a call from the host several times shorter.
    """
    counts = jnp.stack([verdict.astype(float), steps.astype(float)])
    energy = times_power_of_two(energy, 3 * exponent)
    return jnp.concatenate([times_power_of_two(times, -exponent), energy[None], counts])


def unpacked(kind: type, packed: Any, **vectors: Any) -> Any:
    """A result of that kind from `packed_scalars` and its vectors (in the order of its fields).

    Put together as `jax.tree.unflatten` does it, since the constructor of a module takes longer
    than a small solve.
    """
    time, lower, upper, energy, verdict, steps = (packed[i] for i in range(SCALARS))
    counts = verdict.astype(np.int32), steps.astype(np.int32)
    leaves = (time, lower, upper, counts[0], energy, *vectors.values(), counts[1])
    return jax.tree.unflatten(_structure(kind, tuple(vectors)), leaves)


@cache
def _structure(kind: type, vectors: tuple[str, ...]) -> Any:
    scalars = dict.fromkeys(("time", "lower", "upper", "energy"), 0.0)
    counts = {"verdict": Verdict(np.int32(0)), "steps": 0}
    return jax.tree.structure(kind(**scalars, **counts, **dict.fromkeys(vectors, np.zeros(1))))
