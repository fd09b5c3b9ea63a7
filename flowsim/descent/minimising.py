"""`minimise`: discrete optimisers on any loss over samples."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from flowsim import checks
from flowsim.descent.batches import batches_of
from flowsim.descent.methods import method_of
from flowsim.descent.record import Descent, Origin
from flowsim.descent.running import run, save_targets
from flowsim.descent.schedules import schedule_of
from flowsim.descent.stepping import Problem
from flowsim.integrate.arguments import initial_state


class LossGradient(eqx.Module):
    """Loss and gradient of the samples of a batch, or of all."""

    loss: Callable[..., Any]

    def __call__(self, t: Any, theta: Any, samples: Any) -> tuple[Any, Any]:
        """(L, ∇L)."""
        return jax.value_and_grad(self.loss)(theta, samples)


def minimise(
    loss: Callable[..., Any],
    theta0: Any,
    *,
    samples: int,
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
    origin: Origin | None = None,
) -> Descent:
    """Discrete descent of `loss(theta, rows)` from theta0, any pytree of real arrays.

    Args:
        loss: of the weights and of the sample numbers of a batch, or None for all samples; an
            `eqx.Module` that holds its data is not traced again for other data of their shapes.
        samples: n, how many there are.
        optimizer, …, times: as in `train`.
        origin: what the loss belongs to, where `compare` is to know it.

    Raises:
        ValueError, TypeError: arguments that break a rule; the message names them.
    """
    theta0 = initial_state("theta0", theta0)
    dtype = jnp.result_type(*jax.tree.leaves(theta0))
    steps = checks.integer("steps", steps)
    eta = jnp.asarray(checks.positive("learning_rate", learning_rate), dtype)
    hyper = {"momentum": momentum, "weight_decay": weight_decay, "clip": clip}
    method = method_of(optimizer, dtype, **hyper)
    batches = batches_of(key, batch_size, checks.integer("samples", samples), replace)
    plan = schedule_of(schedule, steps)
    problem = Problem(LossGradient(loss), method, plan, eta, batches, True)
    unit = (
        None
        if schedule is not None or checks.is_traced(eta, method)
        else problem.time(jnp.ones_like(eta))
    )
    row_bytes = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(theta0))
    targets = save_targets(
        steps, save_steps=save_steps, times=times, row_bytes=row_bytes, unit=unit
    )
    return run(problem, theta0, targets, origin, _stats(problem, batch_size))


def _stats(problem: Problem, batch_size: Any) -> dict[str, Any]:
    """What the optimiser was, each a number."""
    plain = (lambda x: x) if checks.is_traced(problem) else float
    stats = {"learning_rate": plain(problem.learning_rate)}
    stats |= {name: plain(value) for name, value in problem.method.values.items()}
    return stats if batch_size is None else stats | {"batch_size": batch_size}
