"""Checks of what every solve starts from: a state and the rate at which it moves."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

from flowsim import checks


def initial_state(name: str, y0: Any) -> Any:
    """The initial state as a pytree of floating-point arrays of one type; a plain list of numbers
    is meant as one array."""
    if isinstance(y0, list) and all(np.isscalar(x) for x in y0):
        y0 = checks.array(name, y0)
    paths, tree = jax.tree_util.tree_flatten_with_path(y0)
    if not paths:
        raise checks.fail(name, "hold at least one array", y0)
    leaves = [checks.array(name + jax.tree_util.keystr(path), x) for path, x in paths]
    dtypes = {x.dtype for x in leaves}
    if len(dtypes) > 1:
        raise checks.fail(name, "have one floating-point type", sorted(map(str, dtypes)))
    return jax.tree.unflatten(tree, leaves)


def same_structure(first: Any, second: Any) -> bool:
    """Whether two pytrees have the same containers."""
    trees: list[Any] = [jax.tree.structure(tree) for tree in (first, second)]
    return trees[0] == trees[1]


def check_rate(name: str, rate: Callable, t0: Any, y0: Any, args: Any) -> None:
    """The rate must return what it is a rate of: the state's structure, shapes and types."""
    out = traced_shapes(name, rate, t0, y0, args)
    if not same_structure(out, y0) or _described(out) != _described(y0):
        rule = f"return the state's structure, shapes and types, {_described(y0)}"
        raise checks.fail(name, rule, _described(out))


def check_condition(name: str, condition: Callable, *arguments: Any) -> None:
    """The condition of an event must return a real scalar."""
    out = traced_shapes(name, condition, *arguments)
    kind = getattr(out, "dtype", None)
    real = kind is not None and (
        np.issubdtype(kind, np.floating) or np.issubdtype(kind, np.integer)
    )
    if getattr(out, "shape", None) != () or not real:
        raise checks.fail(name, "return a real scalar", _described(out))


def traced_shapes(name: str, function: Callable, *arguments: Any) -> Any:
    """What a user's function returns, in shapes, or a refusal that says how to mend it."""
    _check_arity(name, function, len(arguments))
    try:
        return _shapes(function, arguments)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerBoolConversionError) as error:
        raise TypeError(
            f"{name} must not branch in Python on values of t or y (they are traced): "
            "use jnp.where or jax.lax.cond instead of if, and jax.lax.while_loop instead of while"
        ) from error
    except jax.errors.TracerArrayConversionError as error:
        raise TypeError(
            f"{name} must not turn t or y into NumPy arrays (they are traced): "
            "use jax.numpy instead of numpy"
        ) from error


def _shapes(function: Callable, arguments: Any) -> Any:
    """What a function returns, in shapes; traced once for each kind of its arguments."""
    leaves, tree = jax.tree.flatten((function, arguments))
    kinds = tuple(_kind(x) if eqx.is_array(x) else x for x in leaves)
    try:
        hash((tree, kinds))
    except TypeError:
        return eqx.filter_eval_shape(function, *arguments)
    return _shapes_of_kinds(tree, kinds, jax.dtypes.canonicalize_dtype(float))


def _kind(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=jax.typeof(x).weak_type)


@lru_cache(maxsize=64)
def _shapes_of_kinds(tree: Any, kinds: tuple, precision: Any) -> Any:
    """`precision`: the default floating-point type, which the answer depends on."""
    function, arguments = jax.tree.unflatten(tree, kinds)
    return eqx.filter_eval_shape(function, *arguments)


def _check_arity(name: str, function: Callable, count: int) -> None:
    names = ("t", "y", "args", "rate")[:count]
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        rule = f"be callable as {name}({', '.join(names)})"
        raise TypeError(f"{name} must {rule}; got {checks.shown(function)}: {error}") from error
    except ValueError:
        return  # a builtin without a signature


def _described(tree: Any) -> Any:
    """Types and shapes of the leaves; what is no array as it is."""

    def describe(x: Any) -> str:
        known = hasattr(x, "dtype") and hasattr(x, "shape")
        return f"{x.dtype}{list(x.shape)}" if known else checks.shown(x)

    return jax.tree.map(describe, tree)
