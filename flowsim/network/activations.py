"""Activations σ with σ(0) = 0 and σ'(0) ≠ 0, all that the theory asks (theory.md, section 1)."""

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

RULE = "satisfy σ(0) = 0 and σ'(0) ≠ 0 with a derivative at 0"


class Activation(eqx.Module):
    """An elementwise function σ with its slope σ'(0); two of one function are equal."""

    name: str = eqx.field(static=True)
    function: Callable[[Array], Array] = eqx.field(static=True)
    slope: float = eqx.field(static=True)

    def __call__(self, z: Array) -> Array:
        return self.function(z)


def gelu(z: Array) -> Array:
    """z Φ(z), Φ the normal distribution function: the exact form, not the tanh approximation."""
    return jax.nn.gelu(z, approximate=False)


def identity(z: Array) -> Array:
    """σ(z) = z."""
    return z


NAMED = {
    "tanh": Activation("tanh", jnp.tanh, 1.0),
    "gelu": Activation("gelu", gelu, 0.5),
    "silu": Activation("silu", jax.nn.silu, 0.5),
    "identity": Activation("identity", identity, 1.0),
}


def activation(value: Any) -> Activation:
    """The activation behind a name or a callable.

    Raises:
        ValueError: an unknown name, or a function that breaks σ(0) = 0, σ'(0) ≠ 0; ReLU is one.
    """
    if isinstance(value, Activation):
        return value
    if isinstance(value, str) and value.lower() == "relu":
        raise _broken(value, "ReLU has slope 1 from the right and 0 from the left")
    if isinstance(value, str) or not callable(value):
        return NAMED[checks.choice("activation", value, NAMED)]
    for known in NAMED.values():
        if value is known.function:
            return known
    return _checked(value)


@functools.cache
def linear(slope: float) -> Activation:
    """z ↦ slope · z: what σ becomes in the linearised model; one object a slope."""
    return Activation(f"{slope:g} z", lambda z: slope * z, slope)


def _checked(function: Callable[..., Any]) -> Activation:
    name = checked_name("activation", function)
    return _measured(name, function, jnp.result_type(float))


@functools.lru_cache(maxsize=64)
def _measured(name: str, function: Callable[..., Any], dtype: Any) -> Activation:
    with jax.ensure_compile_time_eval():
        at_zero, sides, jumps = _at_zero(function, dtype)
        slope = float(jax.grad(function)(jnp.zeros((), dtype)))
        at_one = abs(float(function(jnp.ones((), dtype))))
    tiny = 8 * float(jnp.finfo(dtype).eps)
    if not abs(at_zero) <= tiny:
        raise _broken(name, f"σ(0) = {at_zero:g}")
    if jumps[1] > 1e-3 * max(map(abs, sides)) and jumps[1] > 0.5 * jumps[0]:
        raise _broken(name, f"slope {sides[1]:.3g} from the right and {sides[0]:.3g} from the left")
    if not math.isfinite(slope) or abs(slope) <= tiny * at_one:
        raise _broken(name, f"σ'(0) = {slope:g}")
    return Activation(name, function, slope)


def _at_zero(function: Callable[..., Any], dtype: Any) -> tuple[float, list[float], list[float]]:
    """σ(0), the difference quotients from left and right, and their jumps at two steps.

    `jax.grad` gives ReLU a slope of 0 at 0, so a kink must be looked for: there the jump between
    the quotients of both sides stays as the step shrinks, while it vanishes for a smooth σ.
    """
    zero = float(function(jnp.zeros((), dtype)))
    sides, jumps = [0.0, 0.0], []
    for step in (2.0**-8, 2.0**-12):
        below, above = (float(function(jnp.asarray(z, dtype))) for z in (-step, step))
        sides = [(zero - below) / step, (above - zero) / step]
        jumps.append(abs(sides[1] - sides[0]))
    return zero, sides, jumps


def _broken(name: str, reason: str) -> ValueError:
    return checks.fail("activation", RULE, f"{name}: {reason}")
