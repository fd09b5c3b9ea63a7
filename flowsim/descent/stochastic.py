"""The diffusion that mini-batch SGD follows in law (theory.md, section 9)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.descent.noise import BatchNoise, batch_noise_field
from flowsim.flows import Full
from flowsim.integrate.diffusion import diffusion
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory


class Drift(eqx.Module):
    """−∇(L + (s/4)‖∇L‖²), s of either sign."""

    flow: Full
    strength: Float[Array, ""]

    def __call__(self, t: Any, theta: Parameters, args: Any = None) -> Parameters:
        """−(∇L + (s/2) ∇²L ∇L), without a Hessian."""
        rate, curvature = jax.linearize(lambda theta: self.flow.rate(t, theta), theta)
        return jax.tree.map(lambda r, c: r - self.strength / 2 * c, rate, curvature(rate))


def diffuse(
    net: OneLayerTransformer,
    task: Task,
    theta0: Parameters,
    *,
    learning_rate: Any,
    steps: int,
    batch_size: int,
    key: Array,
    order: int = 1,
    substeps: int = 2,
    saves: int = 1,
) -> Trajectory:
    """dX = −∇L dt + η^{1/2} Σ(X)^{1/2} dW: what SGD with rate η and batches drawn with replacement
    is in law, up to O(η) at fixed t = ηk (weak order 1; Li, Tai & E 2019).

    With `order` 2 the drift is −∇(L + (η/4)‖∇L‖²) and what remains is O(η²). Euler–Maruyama steps
    of length δ = η/substeps themselves add (δ/4)‖∇L‖² to the drift, which is taken off beforehand,
    so that they cost O(ηδ) only.

    Args:
        steps: steps of SGD; the diffusion runs to t = η · steps.
        batch_size: B, up to n.
        key: of one path; `jax.vmap` over keys gives an ensemble.
        saves: how many equally spaced states are kept after the first; it divides the steps.

    Raises:
        ValueError, TypeError: arguments that break a rule; the message names them.
    """
    eta = jnp.asarray(checks.positive("learning_rate", learning_rate), theta0.W_Q.dtype)
    batch_size = checks.integer("batch_size", batch_size)
    if batch_size > task.size:
        rule = f"be at most the number of samples, {task.size}"
        raise checks.fail("batch_size", rule, batch_size)
    if order not in (1, 2):
        raise checks.fail("order", "be 1 or 2", order)
    steps = checks.integer("steps", steps)
    if steps % checks.integer("saves", saves):
        raise checks.fail("saves", f"divide the number of steps, {steps}", saves)
    short = eta / checks.integer("substeps", substeps)
    strength = (eta if order == 2 else 0) - short
    noise = batch_noise_field(BatchNoise(net, task, batch_size), eta)
    return diffusion(
        Drift(Full(net, task), strength),
        noise,
        theta0,
        dimension=task.size,
        step=short,
        steps=steps * substeps,
        saves=saves,
        key=key,
    )
