"""Observables of every matrix of a state, under the matrix's own name."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def by_name(
    function: Callable[..., Any], tree: Any, *others: Any, least_axes: int = 0
) -> dict[str, Any]:
    """{name of a leaf: function(leaf, …)} for the leaves with at least `least_axes` axes.

    Names are those of the fields ("W_Q" in `Parameters`), joined by dots in nested states; a bare
    array is called "y". `others` are states of the same structure whose leaves come after.
    """
    named = jax.tree_util.tree_leaves_with_path(tree)
    rest = [jax.tree.leaves(other) for other in others]
    return {
        jax.tree_util.keystr(path, simple=True, separator=".") or "y": function(leaf, *more)
        for (path, leaf), *more in zip(named, *rest, strict=True)
        if jnp.ndim(leaf) >= least_axes
    }
