"""Losses ℓ(q) of the margin q = y f(X) with ℓ'(0) < 0 (theory.md, section 1)."""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from flowsim import checks
from flowsim.network.elementwise import checked_name


class Loss(eqx.Module):
    """An elementwise function ℓ with its slope ℓ'(0) < 0; two of one function are equal."""

    name: str = eqx.field(static=True)
    function: Callable[[Array], Array] = eqx.field(static=True)
    slope: float = eqx.field(static=True)

    def __call__(self, q: Array) -> Array:
        return self.function(q)

    def derivative(self, q: Array) -> Array:
        """ℓ'(q), elementwise."""
        return jax.jvp(self.function, (q,), (jnp.ones_like(q),))[1]


def exponential(q: Array) -> Array:
    """e^(−q)  [CL 3]."""
    return jnp.exp(-q)


def logistic(q: Array) -> Array:
    """log(1 + e^(−q)), without overflow."""
    return jax.nn.softplus(-q)


NAMED = {
    "exponential": Loss("exponential", exponential, -1.0),
    "logistic": Loss("logistic", logistic, -0.5),
}


def loss(value: Any) -> Loss:
    """The loss behind a name or a callable.

    Raises:
        ValueError: an unknown name, or a function without ℓ'(0) < 0.
    """
    if isinstance(value, Loss):
        return value
    if isinstance(value, str) or not callable(value):
        return NAMED[checks.choice("loss", value, NAMED)]
    for known in NAMED.values():
        if value is known.function:
            return known
    return _checked(value)


def _checked(function: Callable[..., Any]) -> Loss:
    name = checked_name("loss", function)
    return _measured(name, function, jnp.result_type(float))


@functools.lru_cache(maxsize=64)
def _measured(name: str, function: Callable[..., Any], dtype: Any) -> Loss:
    with jax.ensure_compile_time_eval():
        slope = float(jax.grad(function)(jnp.zeros((), dtype)))
    if not -math.inf < slope < 0:
        raise checks.fail("loss", "satisfy ℓ'(0) < 0", f"{name}: ℓ'(0) = {slope:g}")
    return Loss(name, function, slope)
