"""The noise of mini-batches: the square root of the gradient covariance as a linear map."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.network import OneLayerTransformer, Parameters
from flowsim.tasks import Task


class BatchNoise(eqx.Module):
    """Σ(θ)^{1/2} of batches of B samples drawn with replacement, as a map from R^n.

    Σ = (1/B) (1/n) Σ_i (g_i − ḡ)(g_i − ḡ)ᵀ with the gradients g_i of single samples, so
    S ξ = (Bn)^{−1/2} Σ_i (ξ_i − ξ̄) g_i has S Sᵀ = Σ. S ξ is one pull-back of the n losses, as
    dear as a gradient; neither Σ nor the g_i are formed.

    Batches that deal out an epoch without replacement do not add independent noise (it cancels
    over the epoch): this covariance is not theirs.
    """

    net: OneLayerTransformer
    task: Task
    batch_size: int = eqx.field(static=True)

    def __call__(self, theta: Parameters, xi: Float[Array, "n"]) -> Parameters:
        """S ξ, shaped like θ."""

        def losses(theta):
            return self.net.margin_loss(self.task.y * self.net(theta, self.task.X))

        scale = (self.batch_size * self.task.size) ** -0.5
        _, pull_back = jax.vjp(losses, theta)
        return pull_back(scale * (xi - jnp.mean(xi)))[0]

    def along(self, theta: Parameters, direction: Parameters) -> Float[Array, ""]:
        """direction · Σ direction, the variance along a direction: |Sᵀ direction|²."""
        zeros = jnp.zeros_like(self.task.y)
        transpose = jax.linear_transpose(lambda xi: self(theta, xi), zeros)
        return jnp.sum(transpose(direction)[0] ** 2)


def batch_noise_field(noise: BatchNoise, learning_rate: Any) -> Any:
    """η^{1/2} Σ^{1/2} as (t, state, ξ, args) → increment, for `flowsim.integrate.diffusion`."""
    return _Scaled(noise, learning_rate)


class _Scaled(eqx.Module):
    noise: BatchNoise
    learning_rate: Float[Array, ""]

    def __call__(self, t: Any, theta: Parameters, xi: Float[Array, "n"], args: Any) -> Parameters:
        increment = self.noise(theta, xi)
        return jax.tree.map(lambda x: jnp.sqrt(self.learning_rate) * x, increment)
