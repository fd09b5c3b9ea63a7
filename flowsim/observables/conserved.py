"""What the flow of the full model conserves, and its drift along a run (theory.md, section 3)."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.network import Parameters
from flowsim.observables.norms import frobenius


def conserved(theta: Parameters) -> tuple[Float[Array, "h h"], Float[Array, "k k"]]:
    """(W_VᵀW_V − W_1W_1ᵀ, W_QᵀW_Q − W_KᵀW_K): constant for any σ, loss and attention."""
    values = theta.W_V.T @ theta.W_V - theta.W_1 @ theta.W_1.T
    keys = theta.W_Q.T @ theta.W_Q - theta.W_K.T @ theta.W_K
    return values, keys


def conserved_drift(theta: Parameters, start: Parameters) -> Float[Array, ""]:
    """Largest change of a conserved matrix since the start, over the size of its two terms."""

    def drift(now: Array, then: Array, *terms: Array) -> Array:
        size = sum(frobenius(W) ** 2 for W in terms)
        change = frobenius(now - then)
        return jnp.where(change == 0, jnp.zeros_like(change), change / size)

    values, keys = conserved(theta)
    values0, keys0 = conserved(start)
    return jnp.maximum(
        drift(values, values0, theta.W_V, theta.W_1), drift(keys, keys0, theta.W_Q, theta.W_K)
    )


def largest_drift(states: Any) -> Float[Array, ""]:
    """`conserved_drift` from the first of the saved states (time first), the largest of all."""
    start = jax.tree.map(lambda x: x[0], states)
    return jnp.max(jax.lax.map(lambda theta: conserved_drift(theta, start), states))
