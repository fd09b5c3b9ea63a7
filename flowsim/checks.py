"""Argument checks: every message names the argument, the rule and the value that broke it.

Values are checked where they are known. Under `jit`, `vmap` and `grad` an array has a shape and a
dtype but no value; there these checks look at shapes and dtypes alone, and a bad value shows as an
`Outcome` instead.
"""

import difflib
import math
import numbers
import os
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def is_traced(*trees: Any) -> bool:
    """Whether any leaf has no value yet, because a JAX transformation is tracing it."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def fail(name: str, rule: str, value: Any) -> ValueError:
    """The exception for a broken rule, to be raised by the caller."""
    return ValueError(f"{name} must {rule}; got {shown(value)}")


def shown(value: Any) -> str:
    """A value on one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def number(name: str, value: Any) -> Any:
    """A real scalar, finite where its value is known."""
    if is_traced(value):
        if jnp.ndim(value) != 0:
            raise fail(name, "be a scalar", f"shape {jnp.shape(value)}")
        return value
    if isinstance(value, bool | str) or not isinstance(
        value, numbers.Real | np.ndarray | jax.Array
    ):
        raise TypeError(f"{name} must be a real number; got {shown(value)}")
    scalar: Any = value
    if np.ndim(scalar) != 0 or np.iscomplexobj(scalar):
        raise fail(name, "be a real scalar", value)
    try:
        scalar = float(scalar)
    except (TypeError, ValueError, OverflowError) as error:
        raise fail(name, "be a real number in the range of a float", value) from error
    if math.isnan(scalar):
        raise fail(name, "be a number", scalar)
    return scalar


def positive(name: str, value: Any) -> Any:
    """A finite scalar > 0."""
    value = number(name, value)
    if not is_traced(value) and not 0 < value < math.inf:
        raise fail(name, "be positive and finite", value)
    return value


def between(
    name: str, value: Any, low: Any, high: Any, *, closed: tuple[bool, bool] = (False, False)
) -> Any:
    """A scalar in the interval from low to high; `closed` says which ends belong to it."""
    value = number(name, value)
    above = is_traced(value) or (value >= low if closed[0] else value > low)
    below = is_traced(value) or (value <= high if closed[1] else value < high)
    if not (above and below):
        left, right = "(["[closed[0]], ")]"[closed[1]]
        raise fail(name, f"lie in {left}{low:g}, {high:g}{right}", value)
    return value


#: The largest integers that steps and sizes, and that seeds, may be.
LARGEST, LARGEST_SEED = 2**31 - 1, 2**63 - 1


def integer(name: str, value: Any, *, low: int = 1, high: int = LARGEST) -> int:
    """A Python integer from low to high."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer; got {shown(value)}")
    value = int(value)
    if value < low:
        raise fail(name, f"be an integer >= {low}", value)
    if value > high:
        raise fail(name, f"be an integer <= {high}", value)
    return value


def width(name: str, value: Any, *, low: int = 1) -> int:
    """A width whose square matrix fits in the machine's memory: to ask for more is a slip, and
    would take the whole machine before it fails."""
    value = integer(name, value, low=low)
    return fitting(name, value, value**2, "a square matrix")


def fitting(name: str, value: int, numbers: int, what: str) -> int:
    """A size for which so many float64 numbers fit in the machine's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 8 * numbers > memory:
        raise fail(name, f"leave {what} that fits in {memory / 2**30:.3g} GiB", value)
    return value


def seed(name: str, value: Any) -> int:
    """A seed of `jax.random.key`: a whole number ≥ 0 of 63 bits."""
    return integer(name, value, low=0, high=LARGEST_SEED)


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {shown(value)}")
    return bool(value)


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words; the message names the nearest of them."""
    options = list(options)
    if isinstance(value, str) and value in options:
        return value
    raise fail(name, f"be one of {', '.join(options)}{nearest(value, options)}", value)


def nearest(value: Any, options: Iterable[str]) -> str:
    """Which of a few words may have been meant, in brackets; nothing where none is near."""
    near = difflib.get_close_matches(str(value), options, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def array(name: str, value: Any, *, ndim: int | None = None) -> jax.Array:
    """A real, non-empty floating-point array, finite where its values are known.

    Integers and booleans become the default floating-point type; the floating-point type of an
    array that has one is kept.
    """
    return jnp.asarray(given_array(name, value, ndim=ndim))


def given_array(name: str, value: Any, *, ndim: int | None = None) -> np.ndarray | jax.Array:
    """The same, but what is not a JAX array stays with NumPy: a jitted call takes it as it is."""
    value = _as_real(name, value)
    if ndim is not None and value.ndim != ndim:
        raise fail(name, f"have {ndim} axes", f"shape {value.shape}")
    if value.size == 0:
        raise fail(name, "not be empty", f"shape {value.shape}")
    if not is_traced(value):
        finite = np.isfinite(np.asarray(value))
        if not finite.all():
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise fail(name, "be finite", f"{np.asarray(value)[where]} at index {where}")
    return value


def _as_real(name: str, value: Any) -> np.ndarray | jax.Array:
    if not isinstance(value, jax.Array):
        try:
            value = jnp.asarray(value) if is_traced(value) else np.asarray(value)
        except ValueError as error:
            raise fail(name, "be a rectangular array of numbers", value) from error
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise fail(name, "be real", f"dtype {value.dtype}")
    if value.dtype == object or not (
        jnp.issubdtype(value.dtype, jnp.number) or value.dtype == jnp.bool_
    ):
        raise TypeError(f"{name} must be an array of numbers; got dtype {value.dtype}")
    if not jnp.issubdtype(value.dtype, jnp.floating):
        value = value.astype(jnp.result_type(float))
    if value.dtype.itemsize > 8:
        value = value.astype(np.float64)
    return value


def key(name: str, value: Any) -> Any:
    """A key of `jax.random`, traced or not."""
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if typed and value.ndim == 0:
        return value
    raise TypeError(f"{name} must be a key, such as jax.random.key(0); got {shown(value)}")


def same_size(first: str, size: int, second: str, other: int) -> None:
    """Two axes that a product contracts must have one length."""
    if size != other:
        raise ValueError(
            f"shapes must chain: {first} has length {size} where {second} has length {other}"
        )


def double_precision(what: str) -> None:
    """Refuse to compute in float32 what is promised to double precision."""
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{what} needs double precision; add jax.config.update('jax_enable_x64', True) "
            "before the first JAX call"
        )
