"""A binary classification task and the moments of it that the theory needs."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim import checks


class Task(eqx.Module):
    """n sequences of s tokens of width d with labels ±1 (theory.md, sections 0 and 2).

    Args:
        X: tokens, shape (n, s, d); the last token of a sequence is its query.
        y: labels, shape (n,), each −1 or +1.

    Attributes:
        direction: v = S/‖S‖ with S = Σ_i y_i Σ_j X_ij, shape (d,).
        strength: c = ‖S‖/(n s).
        mean_tokens: x̄_i = (1/s) Σ_j X_ij, shape (n, d).

    Raises:
        ValueError: shapes that do not match, entries that are not finite, labels other than ±1, or
            S = 0, which leaves the condensation direction undefined.

    >>> task = Task([[[1.0, 0.0], [3.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]], [1, -1])
    >>> task.size, task.length, task.width
    (2, 2, 2)
    >>> task.direction.tolist(), float(task.strength)
    ([1.0, 0.0], 1.0)
    """

    X: Float[Array, "n s d"]
    y: Float[Array, "n"]
    mean_tokens: Float[Array, "n d"]
    direction: Float[Array, "d"]
    strength: Float[Array, ""]
    name: str = eqx.field(static=True)

    def __init__(self, X: Any, y: Any, *, name: str = "user"):
        self.X = checks.array("X", X, ndim=3)
        self.y = checks.array("y", y, ndim=1).astype(self.X.dtype)
        self.name = name
        n = self.X.shape[0]
        checks.same_size("y", self.y.shape[0], "axis 0 of X", n)
        _check_labels(self.y)
        self.mean_tokens = jnp.mean(self.X, axis=1)
        unit = jnp.maximum(jnp.max(jnp.abs(self.X)), jnp.finfo(self.X.dtype).tiny)
        signed_sum = self.y @ (self.mean_tokens / unit) / n
        strength = jnp.linalg.norm(signed_sum)  # of tokens of size one: no overflow
        _check_direction(self.X / unit, strength)
        self.strength = unit * strength
        self.direction = signed_sum / strength

    @property
    def last_tokens(self) -> Float[Array, "n d"]:
        """X_{i,s}: the queries."""
        return self.X[:, -1, :]

    @property
    def width(self) -> int:
        """Token width d."""
        return self.X.shape[-1]

    @property
    def size(self) -> int:
        """Number of samples n."""
        return self.X.shape[0]

    @property
    def length(self) -> int:
        """Tokens a sample, s."""
        return self.X.shape[1]

    def __repr__(self) -> str:
        n, s, d = self.X.shape
        return f"Task({self.name!r}, samples={n}, tokens={s}, width={d})"


def _check_labels(y: Array) -> None:
    if checks.is_traced(y):
        return
    values = np.asarray(y)
    wrong = np.flatnonzero(np.abs(values) != 1)
    if wrong.size:
        raise checks.fail(
            "y", "hold labels −1 and +1 only", f"{values[wrong[0]]} at index {wrong[0]}"
        )


def _check_direction(X: Array, strength: Array) -> None:
    """S of rounding size against Σ|X| is S = 0: its direction would be noise."""
    if checks.is_traced(X, strength):
        return
    size = float(jnp.mean(jnp.abs(X)))
    if not float(strength) > 64 * float(jnp.finfo(X.dtype).eps) * size:
        raise checks.fail(
            "S = Σ_i y_i Σ_j X_ij",
            "not vanish: the condensation direction v = S/‖S‖ is undefined",
            float(strength),
        )
