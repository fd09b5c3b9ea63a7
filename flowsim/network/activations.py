"""Activations σ with σ(0) = 0 and σ'(0) ≠ 0, all that the theory asks (theory.md, section 1)."""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from flowsim import checks

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


def activation(value: str | Callable[..., Any] | Activation) -> Activation:
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


@functools.lru_cache(maxsize=64)
def _checked(function: Callable[..., Any]) -> Activation:
    name = getattr(function, "__name__", type(function).__name__)
    with jax.ensure_compile_time_eval():
        _check_shape(name, function)
        at_zero, jumps, sides = _at_zero(function)
        slope = float(jax.grad(lambda z: function(z))(jnp.zeros(())))
    tiny = 8 * float(jnp.finfo(float).eps)
    if not abs(at_zero) <= tiny:
        raise _broken(name, f"σ(0) = {at_zero:g}")
    size = max(abs(side) for side in sides)
    if jumps[1] > 1e-3 * size and jumps[1] > 0.5 * jumps[0]:
        raise _broken(name, f"slope {sides[1]:.3g} from the right and {sides[0]:.3g} from the left")
    if not math.isfinite(slope) or abs(slope) <= tiny * abs(float(function(jnp.ones(())))):
        raise _broken(name, f"σ'(0) = {slope:g}")
    return Activation(name, function, slope)


def _at_zero(function: Callable[..., Any]) -> tuple[float, list[float], list[float]]:
    """σ(0), the jump of the difference quotients at two steps, and the last left and right one.

    `jax.grad` gives ReLU a slope of 0 at 0, so a kink must be looked for: there the jump between
    the quotients of both sides stays as the step shrinks, while it vanishes for a smooth σ.
    """
    steps = 2.0 ** np.array([-8.0, -12.0])
    points = np.concatenate([[0.0], -steps, steps])
    zero, *values = (float(function(jnp.asarray(z, dtype=float))) for z in points)
    left = [(zero - values[i]) / steps[i] for i in range(2)]
    right = [(values[2 + i] - zero) / steps[i] for i in range(2)]
    return zero, [abs(right[i] - left[i]) for i in range(2)], [left[1], right[1]]


def _check_shape(name: str, function: Callable[..., Any]) -> None:
    argument = jax.ShapeDtypeStruct((2, 3), jnp.result_type(float))
    out = jax.eval_shape(function, argument)
    if getattr(out, "shape", None) != argument.shape or out.dtype != argument.dtype:
        raise checks.fail(
            "activation", "act elementwise and keep the dtype", f"{name} giving {out}"
        )


def _broken(name: str, reason: str) -> ValueError:
    return checks.fail("activation", RULE, f"{name}: {reason}")
