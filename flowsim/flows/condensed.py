"""The condensed network: the full model on the manifold after blow-up (theory.md, section 6)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.tasks import Task


class CondensedState(eqx.Module):
    """(p, q, r, W_Q, W_K) of W_V = p nᵀ, W_1 = n qᵀ, W_2 = r with a fixed unit vector n ∈ R^h."""

    p: Float[Array, "*batch d"]
    q: Float[Array, "*batch m"]
    r: Float[Array, "*batch m"]
    W_Q: Float[Array, "*batch d k"]
    W_K: Float[Array, "*batch d k"]


def embed(state: CondensedState, n: Any) -> Parameters:
    """The weights W_V = p nᵀ, W_1 = n qᵀ, W_2 = r; n is scaled to unit length.

    Linear in (p, q, r, W_Q, W_K), so it maps a rate of the condensed flow to one of the full flow.

    Raises:
        ValueError: n that is no vector, not finite, or zero.
    """
    n = checks.array("n", n, ndim=1)
    length = jnp.linalg.norm(n)
    if not checks.is_traced(length) and not float(length) > 0:
        raise checks.fail("n", "not be zero", float(length))
    n = n / length
    return Parameters(
        state.W_Q, state.W_K, jnp.outer(state.p, n), jnp.outer(n, state.q), W_2=state.r
    )


class Condensed(eqx.Module):
    """Gradient flow of L on that manifold, in training time; d + 2m outer unknowns.

    The manifold is invariant under the flow of the full model, for every σ, ℓ and attention, and
    ‖dW_V‖² = ‖dp‖², ‖dW_1‖² = ‖dq‖² on it, so the flow is −∇ of L(p, q, r, W_Q, W_K).
    """

    net: OneLayerTransformer
    task: Task

    def outputs(self, state: CondensedState) -> Float[Array, "n"]:
        """f(X_i) = Σ_k σ((a_i X_i p) q_k) r_k."""
        X = self.task.X
        attention = self.net.attention_weights(state.W_Q, state.W_K, X)
        along_p = jnp.sum(attention * (X @ state.p), axis=1)
        return self.net.activation(jnp.outer(along_p, state.q)) @ state.r

    def loss(self, state: CondensedState) -> Float[Array, ""]:
        """L at the embedded state."""
        return jnp.mean(self.net.margin_loss(self.task.y * self.outputs(state)))

    def rate(self, t: Any, state: CondensedState, args: Any = None) -> CondensedState:
        """−∇L at the state, shaped like it."""
        return jax.grad(lambda state: -self.loss(state))(state)
