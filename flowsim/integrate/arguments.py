"""Checks of what every solve starts from: a state and the rate at which it moves."""

from collections.abc import Callable
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
    try:
        out = eqx.filter_eval_shape(rate, t0, y0, args)
    except jax.errors.ConcretizationTypeError as error:
        raise TypeError(
            f"{name} must not branch in Python on values of t or y (they are traced): "
            "use jnp.where or jax.lax.cond instead of if, and jax.lax.while_loop instead of while"
        ) from error
    except jax.errors.TracerArrayConversionError as error:
        raise TypeError(
            f"{name} must not turn t or y into NumPy arrays (they are traced): "
            "use jax.numpy instead of numpy"
        ) from error
    describe = lambda tree: jax.tree.map(lambda x: f"{x.dtype}{list(x.shape)}", tree)  # noqa: E731
    if not same_structure(out, y0) or describe(out) != describe(y0):
        raise checks.fail(
            name, f"return the state's structure, shapes and types, {describe(y0)}", describe(out)
        )
