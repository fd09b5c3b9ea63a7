"""Gradient flow of the full model."""

from typing import Any

import equinox as eqx
import jax


class Full(eqx.Module):
    """dθ/dt = −∇L(θ) in training time t  (theory.md, section 1).

    `net` is any network with `loss(theta, task)`, θ whatever its weights are, and `task` what its
    loss takes: a `Task`, or the `Sequences` of a decoder.
    `Full(net.linearised(), task)` is the flow of the linearised model.
    """

    net: Any
    task: Any

    def rate(self, t: Any, theta: Any, args: Any = None) -> Any:
        """−∇L at θ, shaped like θ."""
        return jax.grad(lambda theta: -self.net.loss(theta, self.task))(theta)
