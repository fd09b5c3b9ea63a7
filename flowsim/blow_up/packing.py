"""The scalars of a result in one vector: what a call from the host waits for."""

from typing import Any

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


def unpacked_scalars(packed: Any) -> dict[str, Any]:
    """The fields of a result from the vector of `packed_scalars`."""
    time, lower, upper, energy, verdict, steps = (packed[i] for i in range(SCALARS))
    return {
        "time": time,
        "lower": lower,
        "upper": upper,
        "verdict": Verdict(verdict.astype(np.int32)),
        "energy": energy,
        "steps": steps.astype(np.int32),
    }
