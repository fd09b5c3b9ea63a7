"""Stage 2: keys and queries about zero attention  [CL 14, 15] (theory.md, section 7)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.network import OneLayerTransformer
from flowsim.tasks import Task


class KeyQuery(eqx.Module):
    """Ẇ_Q = F W_K, Ẇ_K = Fᵀ W_Q  [CL 14] for states (W_Q, W_K), in training time.

    Args:
        F: a d×d array, or a callable F(t) where the outer weights still move; an `eqx.Module` with
            a `__call__` keeps its arrays out of the compiled code.
    """

    F: Float[Array, "d d"] | Callable[..., Any]

    def __init__(self, F: Any):
        if not callable(F):
            F = checks.array("F", F, ndim=2)
            checks.same_size("axis 0 of F", F.shape[0], "axis 1 of F", F.shape[1])
        self.F = F

    def rate(
        self, t: Any, state: tuple[Float[Array, "d k"], Float[Array, "d k"]], args: Any = None
    ) -> tuple[Float[Array, "d k"], Float[Array, "d k"]]:
        """(F W_K, Fᵀ W_Q)."""
        F = self.F(t) if callable(self.F) else self.F
        W_Q, W_K = state
        return F @ W_K, F.T @ W_Q


def key_query_matrix(
    net: OneLayerTransformer,
    task: Task,
    beta: Float[Array, "d"],
    *,
    key_width: int | None = None,
) -> Float[Array, "d d"]:
    """F of [CL 15] at any β = W_V W_1 W_2, of the linearised model at zero attention.

    F = σ'(0)/(n s sqrt(k)) Σ_i −ℓ'(y_i σ'(0) x̄_i·β) y_i X_{i,s}ᵀ βᵀ C_i,
    C_i = Σ_j X_ijᵀ(X_ij − x̄_i).

    βᵀC_i = Σ_j (X_ij·β − x̄_i·β) X_ij takes O(n s d) and the sum over i one product of d×n with
    n×d; no C_i is formed.

    Args:
        beta: β, shape (d,).
        key_width: k, the number of columns of W_Q; the token width if not given.
    """
    beta = checks.array("beta", beta, ndim=1)
    checks.same_size("beta", beta.size, "a token of the task", task.width)
    k = task.width if key_width is None else checks.width("key_width", key_width)
    values = task.X @ beta
    means = jnp.mean(values, axis=1, keepdims=True)
    pull = -net.margin_loss.derivative(net.slope * task.y * means[:, 0]) * task.y
    mixed = jnp.einsum("ns,nsd->nd", values - means, task.X)
    scale = net.slope / (task.size * task.length * k**0.5)
    return scale * (task.last_tokens * pull[:, None]).T @ mixed
