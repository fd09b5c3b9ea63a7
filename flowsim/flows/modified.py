"""The flow that gradient descent follows to second order in its learning rate."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.flows.full import Full
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.tasks import Task


class Modified(eqx.Module):
    """Gradient flow on L + (η/4)‖∇L‖² (Barrett & Dherin 2021; theory.md, section 9).

    Plain gradient descent with rate η stays O(η²) from it at t = ηk, and O(η) from `Full`.

    Args:
        learning_rate: η > 0, in units of training time.
    """

    net: OneLayerTransformer
    task: Task
    learning_rate: Float[Array, ""]

    def __init__(self, net: OneLayerTransformer, task: Task, learning_rate: Any):
        self.net = net
        self.task = task
        rate = checks.positive("learning_rate", learning_rate)
        self.learning_rate = jnp.asarray(rate, task.X.dtype)

    def rate(self, t: Any, theta: Parameters, args: Any = None) -> Parameters:
        """−(∇L + (η/2) ∇²L ∇L): one gradient and one Hessian-vector product, no Hessian."""
        plain = Full(self.net, self.task)
        rate, curvature = jax.linearize(lambda theta: plain.rate(t, theta), theta)
        # rate = −∇L, so curvature(rate) = −∇²L (−∇L) = ∇²L ∇L
        return jax.tree.map(lambda r, c: r - self.learning_rate / 2 * c, rate, curvature(rate))
