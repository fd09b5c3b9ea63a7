"""Gradient flow of the full model."""

from typing import Any

import equinox as eqx
import jax

from flowsim.tasks import Task


class Full(eqx.Module):
    """dθ/dt = −∇L(θ) in training time t  (theory.md, section 1).

    `net` is any network with `loss(theta, task)`, and θ whatever its weights are.
    `Full(net.linearised(), task)` is the flow of the linearised model.
    """

    net: Any
    task: Task

    def rate(self, t: Any, theta: Any, args: Any = None) -> Any:
        """−∇L at θ, shaped like θ."""
        return jax.grad(lambda theta: -self.net.loss(theta, self.task))(theta)
