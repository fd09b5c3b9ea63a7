"""The one-layer transformer of [CL 1–3] (theory.md, section 1)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.network import activations, losses
from flowsim.network.attention import KINDS, attention_weights, context
from flowsim.network.parameters import Parameters
from flowsim.network.products import chain
from flowsim.tasks import Task


class OneLayerTransformer(eqx.Module):
    """f(X_i) = σ((Σ_j a_ij X_ij) W_V W_1) W_2 with a_i the attention of the last token  [CL 1, 2].

    Holds no weights and no arrays: two networks built from the same choices are equal, so a
    function jitted for one serves the other.

    Args:
        activation: "tanh", "gelu", "silu", "identity", or any elementwise σ with
            σ(0) = 0 and σ'(0) ≠ 0.
        loss: "exponential" e^(−q), "logistic" log(1 + e^(−q)), or any elementwise ℓ with ℓ'(0) < 0.
        attention: "softmax", "first_order" (its expansion at zero scores) or "uniform" (1/s).

    Raises:
        ValueError: an unknown name, or a function that breaks its rule (ReLU has no slope at 0).
    """

    activation: activations.Activation
    margin_loss: losses.Loss
    attention: str = eqx.field(static=True)

    def __init__(
        self,
        activation: str | Callable[..., Any] = "tanh",
        loss: str | Callable[..., Any] = "exponential",
        attention: str = "softmax",
    ):
        self.activation = activations.activation(activation)
        self.margin_loss = losses.loss(loss)
        self.attention = checks.choice("attention", attention, KINDS)

    def __call__(self, theta: Parameters, X: Float[Array, "n s d"]) -> Float[Array, "n"]:
        """Outputs f(X_i), shape (n,)."""
        mixed = context(X, self.attention_weights(theta.W_Q, theta.W_K, X))
        return self.activation(chain(mixed, theta.W_V, theta.W_1)) @ theta.W_2

    def attention_weights(
        self, W_Q: Float[Array, "d k"], W_K: Float[Array, "d k"], X: Float[Array, "n s d"]
    ) -> Float[Array, "n s"]:
        """a_ij: how much the last token of sequence i attends to its token j."""
        return attention_weights(self.attention, W_Q, W_K, X)

    def loss(self, theta: Parameters, task: Task) -> Float[Array, ""]:
        """L(θ) = (1/n) Σ_i ℓ(y_i f(X_i))  [CL 3]."""
        return jnp.mean(self.margin_loss(task.y * self(theta, task.X)))

    @property
    def slope(self) -> float:
        """σ'(0)."""
        return self.activation.slope

    def kappa(self, task: Task) -> Float[Array, ""]:
        """κ = |ℓ'(0) σ'(0)| c, the rate of stage 1: t̄ = κ ε t  [CL 6; theory.md, section 2]."""
        return abs(self.margin_loss.slope * self.slope) * task.strength

    def direction(self, task: Task) -> Float[Array, "d"]:
        """The condensation direction: v, or −v where σ'(0) < 0."""
        return task.direction if self.slope > 0 else -task.direction

    def linearised(self) -> "OneLayerTransformer":
        """The same network with σ(z) replaced by σ'(0) z."""
        return OneLayerTransformer(activations.linear(self.slope), self.margin_loss, self.attention)
