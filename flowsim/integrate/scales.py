"""Sizes of states and errors, free of units: nothing here knows an absolute scale."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

#: The default absolute tolerance is rtol times this fraction of a leaf's largest size so far.
FRACTION = 1e-3


def rms(x: Array) -> Float[Array, ""]:
    """Root mean square of one array, safe against overflow and underflow."""
    largest = jnp.max(jnp.abs(x))
    unit = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1)
    return unit * jnp.sqrt(jnp.mean((x / unit) ** 2))


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether every entry is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def norm(tree: Any) -> Float[Array, ""]:
    """Euclidean norm over all leaves, safe against overflow and underflow."""
    leaves = jax.tree.leaves(tree)
    sizes = jnp.stack([rms(x) * jnp.sqrt(jnp.asarray(x.size, x.dtype)) for x in leaves])
    return rms(sizes) * jnp.sqrt(jnp.asarray(len(leaves), sizes.dtype))


def error_ratio(error: Any, y0: Any, y1: Any, size: Any, rtol: Any, atol: Any) -> Float[Array, ""]:
    """Root mean square over the leaves of error/(atol + rtol·|y|), each leaf counting once.

    A leaf's absolute tolerance is `atol` where it is given, else a fraction of its own size, but
    not less than that fraction of 1e-6 of the whole state (a leaf that starts at zero).
    """
    whole = norm(size)

    def ratio(e, a, b, s, tolerance):
        if tolerance is None:
            tolerance = rtol * FRACTION * jnp.maximum(s, 1e-6 * whole)
        scale = tolerance + rtol * jnp.maximum(jnp.abs(a), jnp.abs(b))
        return rms(jnp.where(e == 0, 0, e / jnp.where(scale > 0, scale, jnp.finfo(e.dtype).tiny)))

    leaves = [jax.tree.leaves(tree) for tree in (error, y0, y1, size)]
    tolerances = [None] * len(leaves[0]) if atol is None else jax.tree.leaves(atol)
    ratios = [ratio(*parts) for parts in zip(*leaves, tolerances, strict=True)]
    return rms(jnp.stack(ratios))


def first_step(y0: Any, rate: Any, span: Any) -> Float[Array, ""]:
    """A hundredth of the time in which the state would change by its own size.

    From a zero state it is a millionth of the span; a step that is too long is rejected, one that
    is too short is followed by one ten times as long.
    """
    size, speed = norm(y0), norm(rate)
    guess = jnp.where(size > 0, 0.01 * size / jnp.where(speed > 0, speed, 1), 1e-6 * span)
    return jnp.minimum(jnp.where(speed > 0, guess, 0.01 * span), span)


def growth_time(y: Any, rate: Any) -> Float[Array, ""]:
    """‖y‖/‖ẏ‖ where the norm grows (y·ẏ > 0), otherwise −1."""
    size, speed = norm(y), norm(rate)
    safe = lambda x: jnp.where(x > 0, x, 1)  # noqa: E731
    inner = sum(
        jnp.sum((a / safe(size)) * (b / safe(speed)))
        for a, b in zip(jax.tree.leaves(y), jax.tree.leaves(rate), strict=True)
    )
    return jnp.where((inner > 0) & jnp.isfinite(speed), size / safe(speed), -1)
