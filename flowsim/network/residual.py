"""The residual block with a projection to one output (theory.md, section 11)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.network import activations, losses
from flowsim.network.attention import attention_weights, context
from flowsim.tasks import Task
from flowsim.trajectory import register_state


class ResidualParameters(eqx.Module):
    """Weights of the residual block, in original scale; W_2 is m × d, W_proj a vector."""

    W_Q: Float[Array, "*batch d k"]
    W_K: Float[Array, "*batch d k"]
    W_V: Float[Array, "*batch d d"]
    W_1: Float[Array, "*batch d m"]
    W_2: Float[Array, "*batch m d"]
    W_proj: Float[Array, "*batch d"]


register_state(
    ResidualParameters,
    {
        "W_Q": ("token", "key"),
        "W_K": ("token", "key"),
        "W_V": ("token", "value"),
        "W_1": ("value", "hidden"),
        "W_2": ("hidden", "output"),
        "W_proj": ("output",),
    },
)


class ResidualTransformer(eqx.Module):
    """f(X_i) = (X_is + g_i + σ(g_i W_1) W_2) W_proj, g_i = Σ_j a_ij X_ij W_V.

    The residual counterpart of `OneLayerTransformer`, with attention by softmax. At small weights
    L = ℓ(0) + ℓ'(0) (1/n) Σ y_i X_is·W_proj + higher, so W_proj moves first, linearly in time.
    """

    activation: activations.Activation
    margin_loss: losses.Loss

    def __init__(
        self,
        activation: str | Callable[..., Any] = "tanh",
        loss: str | Callable[..., Any] = "exponential",
    ):
        self.activation = activations.activation(activation)
        self.margin_loss = losses.loss(loss)

    def __call__(self, theta: ResidualParameters, X: Float[Array, "n s d"]) -> Float[Array, "n"]:
        """Outputs f(X_i), shape (n,)."""
        by_X, by_attention, by_ffn = self.parts(theta, X)
        return by_X + by_attention + by_ffn

    def parts(
        self, theta: ResidualParameters, X: Float[Array, "n s d"]
    ) -> tuple[Float[Array, "n"], Float[Array, "n"], Float[Array, "n"]]:
        """f by way of X, of attention and of the feed-forward layer; for ℓ = exp the loss is the
        mean of the product of their three factors L_1 L_2 L_3."""
        g = context(X, attention_weights("softmax", theta.W_Q, theta.W_K, X)) @ theta.W_V
        ffn = self.activation(g @ theta.W_1) @ theta.W_2
        return X[:, -1] @ theta.W_proj, g @ theta.W_proj, ffn @ theta.W_proj

    def loss(self, theta: ResidualParameters, task: Task) -> Float[Array, ""]:
        """L(θ) = (1/n) Σ_i ℓ(y_i f(X_i))."""
        return jnp.mean(self.margin_loss(task.y * self(theta, task.X)))

    def first_stage(self, theta0: ResidualParameters, task: Task, t: Any) -> Float[Array, "d"]:
        """W_proj(t) = W_proj(0) − ℓ'(0) t (1/n) Σ y_i X_is to leading order, t training time."""
        drift = task.y @ task.last_tokens / task.size
        return theta0.W_proj - self.margin_loss.slope * t * drift


def residual_parameters(
    key: Any, width: int, *, scale: float, hidden_width: int | None = None
) -> ResidualParameters:
    """Independent N(0, ε²) weights; `scale` is ε, the hidden width m is d unless given."""
    checks.key("key", key)
    d = checks.width("width", width)
    m = d if hidden_width is None else checks.width("hidden_width", hidden_width)
    scale = checks.positive("scale", scale)
    shapes: dict[str, tuple[int, ...]] = {"W_Q": (d, d), "W_K": (d, d), "W_V": (d, d)}
    shapes |= {"W_1": (d, m), "W_2": (m, d), "W_proj": (d,)}
    keys = jax.random.split(key, len(shapes))
    dtype = jnp.result_type(float)
    return ResidualParameters(
        **{
            name: jnp.asarray(scale, dtype) * jax.random.normal(k, shape, dtype)
            for k, (name, shape) in zip(keys, shapes.items(), strict=True)
        }
    )
