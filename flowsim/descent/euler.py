"""`descend`: Euler steps of any field."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from flowsim import checks
from flowsim.descent.methods import method_of
from flowsim.descent.record import Descent
from flowsim.descent.running import run, save_targets
from flowsim.descent.schedules import Constant
from flowsim.descent.stepping import Problem
from flowsim.integrate.arguments import check_rate, initial_state


class FieldGradient(eqx.Module):
    """A field as minus a gradient; it has no loss."""

    rate: Callable[..., Any]
    args: Any

    def __call__(self, t: Any, y: Any, samples: None) -> tuple[Any, Any]:
        """(0, −rate)."""
        rate = self.rate(t, y, self.args)
        return jnp.zeros_like(t), jax.tree.map(jnp.negative, rate)


def descend(
    rate: Any,
    y0: Any,
    *,
    learning_rate: Any,
    steps: Any,
    args: Any = None,
    save_steps: Any = None,
    times: Any = None,
) -> Descent:
    """y_{k+1} = y_k + η rate(ηk, y_k, args): Euler's method, which is descent if rate = −∇L.

    Args:
        rate: an object with `.rate(t, y, args)`, or such a function itself.
        y0: initial state, any pytree of real arrays.
        learning_rate: η > 0.
        save_steps, times: as in `train`.

    Returns:
        A `Trajectory` on the training clock t = ηk. A state that is not finite ends it as
        `non_finite`; `stats["diverged_at_step"]` is the step that led there.

    Raises:
        ValueError, TypeError: arguments that break a rule; the message names them.
    """
    y0 = initial_state("y0", y0)
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    steps = checks.integer("steps", steps)
    eta = jnp.asarray(checks.positive("learning_rate", learning_rate), dtype)
    rate = getattr(rate, "rate", rate)
    if not callable(rate):
        raise TypeError(f"rate must be callable or have a rate; got {checks.shown(rate)}")
    args = jax.tree.map(lambda x: jnp.asarray(x) if eqx.is_array_like(x) else x, args)
    check_rate("rate", rate, jnp.zeros((), dtype), y0, args)
    field = FieldGradient(rate, args)
    problem = Problem(field, method_of("sgd", dtype), Constant(), eta, None, True)
    row_bytes = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(y0))
    unit = None if checks.is_traced(eta) else eta
    targets = save_targets(
        steps, save_steps=save_steps, times=times, row_bytes=row_bytes, unit=unit
    )
    plain = eta if checks.is_traced(eta) else float(eta)
    descent = run(problem, y0, targets, None, {"learning_rate": plain})
    return eqx.tree_at(lambda d: d.losses, descent, None)
