"""Stage 1: the leading-order flow of small weights  [CL 5–7] (theory.md, section 2)."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.network import Parameters
from flowsim.tasks import Task


def outer(
    theta: Parameters, direction: Float[Array, "d"]
) -> tuple[Float[Array, "h"], Float[Array, "h m"], Float[Array, "m"]]:
    """(W_v, W_1, W_2) with W_v = v W_V: all that moves along the leading-order flow."""
    return direction @ theta.W_V, theta.W_1, theta.W_2


def energy(theta: Parameters, direction: Float[Array, "d"]) -> Float[Array, ""]:
    """E = v W_V W_1 W_2, in original scale (ε³ Ē)  [CL 5]."""
    W_v, W_1, W_2 = outer(theta, direction)
    return W_v @ (W_1 @ W_2)


class LeadingOrder(eqx.Module):
    """dθ/dt = κ ∇(v W_V W_1 W_2) in training time t and original scale; W_Q, W_K stay.

    Args:
        task: gives v.
        kappa: κ = |ℓ'(0) σ'(0)| c > 0, as from `net.kappa(task)`.
        direction: v in place of `task.direction`; `net.direction(task)` where σ'(0) < 0.
    """

    kappa: Float[Array, ""]
    direction: Float[Array, "d"]

    def __init__(self, task: Task, kappa: Any, direction: Any = None):
        given = task.direction if direction is None else direction
        self.direction = checks.array("direction", given, ndim=1)
        checks.same_size("direction", self.direction.size, "a token of the task", task.width)
        self.kappa = jnp.asarray(checks.positive("kappa", kappa), self.direction.dtype)

    def rate(self, t: Any, theta: Parameters, args: Any = None) -> Parameters:
        """dW_V = κ v ⊗ (W_1 W_2), dW_1 = κ W_v ⊗ W_2, dW_2 = κ W_1ᵀ W_v  [CL 7]."""
        W_v, W_1, W_2 = outer(theta, self.direction)
        still = jnp.zeros_like(theta.W_Q), jnp.zeros_like(theta.W_K)
        return Parameters(
            *still,
            W_V=self.kappa * jnp.outer(self.direction, W_1 @ W_2),
            W_1=self.kappa * jnp.outer(W_v, W_2),
            W_2=self.kappa * (W_v @ W_1),
        )
