"""Relative change rates of the matrices (theory.md, sections 8 and 10)."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.observables.named import by_name
from flowsim.observables.norms import frobenius

ATTENTION = ("W_Q", "W_K")
OUTER = ("W_V", "W_1", "W_2")


@jax.jit
def relative_rate(W: Float[Array, "*shape"], rate: Float[Array, "*shape"]) -> Float[Array, ""]:
    """‖Ẇ‖_F/‖W‖_F per unit of the flow's time; 0 for a zero rate, infinite where W alone is 0."""
    change, size = frobenius(rate), frobenius(W)
    return jnp.where(change == 0, jnp.zeros_like(size), change / size)


def relative_rates(theta: Any, rate: Any) -> dict[str, Float[Array, ""]]:
    """‖Ẇ‖_F/‖W‖_F of every matrix of a flow's state, from the state and its rate of change."""
    return by_name(relative_rate, theta, rate)


def relative_changes(states: Any) -> dict[str, Float[Array, "steps"]]:
    """‖W_{k+1} − W_k‖_F/‖W_k‖_F between successive saved states (time first), by name.

    A change a step, not a rate: divide by the steps in time to compare with `relative_rates`.
    """
    before = jax.tree.map(lambda W: W[:-1], states)
    change = jax.tree.map(lambda W: W[1:] - W[:-1], states)
    return by_name(jax.vmap(relative_rate), before, change)


def group_rates(rates: Mapping[str, Array]) -> tuple[Array, Array]:
    """(largest rate of W_Q and W_K, largest of W_V, W_1 and W_2): stage 2 begins where the first
    exceeds the second [CL, Fig. 1b; theory.md, section 8]."""

    def largest(names: tuple[str, ...]) -> Array:
        return jnp.max(jnp.stack([rates[name] for name in names]), axis=0)

    return largest(ATTENTION), largest(OUTER)
