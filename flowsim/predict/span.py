"""Coordinates in the span of the tokens: weights move nowhere else."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.tasks import Task

#: Of the largest singular value of all tokens: smaller ones are rounding.
ACCURACY = 1e-13


class Span(eqx.Module):
    """An orthonormal basis B of the span of all tokens, d×r.

    The model sees W_Q, W_K and W_V through X_ij W alone, so their gradients lie in the span, their
    parts across it never move, and tokens X_ij B with weights BᵀW make the same model with r in
    place of d, up to rounding. (The rows of an image through a fixed embedding have a small r.)
    """

    basis: Float[Array, "d r"]

    def task(self, task: Task) -> Task:
        """The task in these coordinates."""
        d, r = self.basis.shape
        return task if r == d else Task(task.X @ self.basis, task.y, name=task.name)

    def into(self, W: Float[Array, "d *columns"]) -> Float[Array, "r *columns"]:
        """BᵀW."""
        return self.basis.T @ W

    def back(self, W: Float[Array, "r *columns"]) -> Float[Array, "d *columns"]:
        """B W."""
        return self.basis @ W

    def across(self, W: Float[Array, "d *columns"]) -> Float[Array, "d *columns"]:
        """W − B BᵀW: what never moves."""
        d, r = self.basis.shape
        return jnp.zeros_like(W) if r == d else W - self.back(self.into(W))


def span_of(task: Task) -> Span:
    """The span of all tokens; the coordinates of the task itself where that is the whole space."""
    tokens = np.asarray(task.X).reshape(-1, task.width)
    triangle = np.linalg.qr(tokens, mode="r")
    _, sizes, right = np.linalg.svd(triangle, full_matrices=False)
    kept = sizes > ACCURACY * sizes[0]
    if kept.sum() == task.width:
        return Span(jnp.eye(task.width, dtype=task.X.dtype))
    return Span(jnp.asarray(right[kept].T))
