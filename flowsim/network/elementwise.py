"""What a user's activation or loss must be before its values are looked at."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from flowsim import checks


def checked_name(argument: str, function: Callable[..., Any]) -> str:
    """The name of a function that keeps shape and dtype of a JAX array and can be hashed.

    A function is a static part of the network, compared by identity, so it must not hold arrays.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        hash(function)
    except TypeError as error:
        raise TypeError(f"{argument} must be hashable; got {name}: {error}") from error
    probe = jax.ShapeDtypeStruct((2, 3), jnp.result_type(float))
    rule = "map a JAX array to one of the same shape and dtype"
    try:
        out = jax.eval_shape(lambda z: function(z), probe)  # a NumPy ufunc itself breaks jit
    except TypeError as error:
        raise checks.fail(argument, f"{rule} (by jax.numpy, not numpy)", name) from error
    if not isinstance(out, jax.ShapeDtypeStruct) or (out.shape, out.dtype) != (
        probe.shape,
        probe.dtype,
    ):
        raise checks.fail(argument, rule, f"{name}, which gives {out}")
    return name
