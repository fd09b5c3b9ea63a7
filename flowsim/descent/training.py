"""`train`: discrete optimisers on the full model."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flowsim import checks
from flowsim.descent.minimising import minimise
from flowsim.descent.record import Descent, Origin
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.tasks import Task


class LossOfBatch(eqx.Module):
    """Loss of the samples of a batch, or of all."""

    net: OneLayerTransformer
    task: Task

    def __call__(self, theta: Parameters, samples: Int[Array, "B"] | None) -> Float[Array, ""]:
        """(1/B) Σ_i ℓ(y_i f(X_i)) over the samples."""
        if samples is None:
            return self.net.loss(theta, self.task)
        margins = self.task.y[samples] * self.net(theta, self.task.X[samples])
        return jnp.mean(self.net.margin_loss(margins))


def train(
    net: OneLayerTransformer,
    task: Task,
    theta0: Parameters,
    *,
    optimizer: Any = "sgd",
    learning_rate: Any,
    steps: Any,
    batch_size: Any = None,
    replace: Any = False,
    momentum: Any = None,
    weight_decay: Any = None,
    clip: Any = None,
    schedule: Any = None,
    key: Any = None,
    save_steps: Any = None,
    times: Any = None,
) -> Descent:
    """Discrete descent of the loss from theta0 (theory.md, section 9).

    "sgd": θ ← θ − η ∇L; "momentum": heavy ball, m ← β m + ∇L, θ ← θ − η m; "adamw".

    Args:
        learning_rate: η > 0, in units of training time.
        batch_size: samples a step, at most n; None is the full batch.
        replace: draw a batch with replacement; without, each epoch permutes the samples.
        momentum: β in [0, 1), 0.9 if not given.
        weight_decay, clip: of "adamw" alone: decoupled decay, and the largest gradient norm.
        schedule: None (constant), "warm_up_cosine", a `WarmUpCosine`, or any function of the step
            k = 0, 1, … whose value multiplies the learning rate.
        key: of the batches; None is `jax.random.key(0)`.
        save_steps, times: which steps to save, or the times on the training clock that they are
            nearest to. By default every step up to 2000, else 1000 to 2000 equally spaced ones.

    Returns:
        A `Trajectory`. Its clock is "training" with t = ηk, or ηk/(1−β) with momentum, or Σ η_j
        with a schedule; "steps" with Adam. A loss that is not finite or a million times the first
        ends it as `non_finite`; `stats["diverged_at_step"]` is the step whose result it was.

    Raises:
        ValueError, TypeError: arguments that break a rule; the message names them.
    """
    _check(net, task, theta0)
    return minimise(
        LossOfBatch(net, task),
        theta0,
        samples=task.size,
        optimizer=optimizer,
        learning_rate=learning_rate,
        steps=steps,
        batch_size=batch_size,
        replace=replace,
        momentum=momentum,
        weight_decay=weight_decay,
        clip=clip,
        schedule=schedule,
        key=key,
        save_steps=save_steps,
        times=times,
        origin=Origin(net, task),
    )


def _check(net: Any, task: Any, theta0: Any) -> None:
    for name, value, kind in (
        ("net", net, OneLayerTransformer),
        ("task", task, Task),
        ("theta0", theta0, Parameters),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}; got {checks.shown(value)}")
    checks.same_size("axis 0 of W_Q", theta0.width, "a token of the task", task.width)
