"""Gradient flow of the full model."""

from typing import Any

import equinox as eqx
import jax

from flowsim.network import OneLayerTransformer, Parameters
from flowsim.tasks import Task


class Full(eqx.Module):
    """dθ/dt = −∇L(θ) in training time t  (theory.md, section 1).

    `Full(net.linearised(), task)` is the flow of the linearised model.
    """

    net: OneLayerTransformer
    task: Task

    def rate(self, t: Any, theta: Parameters, args: Any = None) -> Parameters:
        """−∇L at θ, shaped like θ."""
        return jax.grad(lambda theta: -self.net.loss(theta, self.task))(theta)
