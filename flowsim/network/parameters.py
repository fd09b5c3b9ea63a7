"""Weights of the one-layer transformer and Gaussian starts (theory.md, sections 0 and 1)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.trajectory import register_state


class Parameters(eqx.Module):
    """Weights θ = (W_Q, W_K, W_V, W_1, W_2) of the one-layer transformer, in original scale.

    `d` token width, `k` query and key width, `h` value width, `m` hidden width; all four may
    differ. Inside a `Trajectory` each matrix carries a leading time axis.

    Raises:
        ValueError: shapes that do not chain, entries that are not finite or not real.
    """

    W_Q: Float[Array, "*batch d k"]
    W_K: Float[Array, "*batch d k"]
    W_V: Float[Array, "*batch d h"]
    W_1: Float[Array, "*batch h m"]
    W_2: Float[Array, "*batch m"]

    def __init__(self, W_Q: Any, W_K: Any, W_V: Any, W_1: Any, W_2: Any):
        self.W_Q = checks.array("W_Q", W_Q, ndim=2)
        self.W_K = checks.array("W_K", W_K, ndim=2)
        self.W_V = checks.array("W_V", W_V, ndim=2)
        self.W_1 = checks.array("W_1", W_1, ndim=2)
        self.W_2 = checks.array("W_2", W_2, ndim=1)
        dtypes = {str(W.dtype) for W in jax.tree.leaves(self)}
        if len(dtypes) > 1:
            raise checks.fail("W_Q, W_K, W_V, W_1, W_2", "have one type", sorted(dtypes))
        d, k = self.W_Q.shape
        checks.same_size("axis 0 of W_K", self.W_K.shape[0], "axis 0 of W_Q", d)
        checks.same_size("axis 1 of W_K", self.W_K.shape[1], "axis 1 of W_Q", k)
        checks.same_size("axis 0 of W_V", self.W_V.shape[0], "axis 0 of W_Q", d)
        checks.same_size("axis 0 of W_1", self.W_1.shape[0], "axis 1 of W_V", self.W_V.shape[1])
        checks.same_size("axis 0 of W_2", self.W_2.shape[0], "axis 1 of W_1", self.W_1.shape[1])

    @property
    def scale(self) -> Array:
        """Root mean square of all entries: a label (no formula needs ε)."""
        leaves = jax.tree.leaves(self)
        return jnp.sqrt(sum(jnp.sum(x**2) for x in leaves) / sum(x.size for x in leaves))

    @property
    def width(self) -> int:
        """Token width d."""
        return self.W_Q.shape[-2]


register_state(
    Parameters,
    {
        "W_Q": ("token", "key"),
        "W_K": ("token", "key"),
        "W_V": ("token", "value"),
        "W_1": ("value", "hidden"),
        "W_2": ("hidden",),
    },
)


def gaussian_parameters(
    key: Any,
    width: int,
    *,
    scale: float | None = None,
    rate: float | None = None,
    key_width: int | None = None,
    value_width: int | None = None,
    hidden_width: int | None = None,
) -> Parameters:
    """Independent N(0, ε²) weights [CL 4]; widths that are not given equal `width`.

    Args:
        key: a `jax.random.key`.
        width: token width d.
        scale: ε, the standard deviation.
        rate: γ > 0 instead of `scale`: ε = d^(−γ), d the token width.
        key_width, value_width, hidden_width: k, h and m.
    """
    checks.key("key", key)
    d = checks.width("width", width)
    k = d if key_width is None else checks.width("key_width", key_width)
    h = d if value_width is None else checks.width("value_width", value_width)
    m = d if hidden_width is None else checks.width("hidden_width", hidden_width)
    if (scale is None) == (rate is None):
        raise ValueError(f"exactly one of scale and rate must be given; got {scale=}, {rate=}")
    if rate is not None:
        scale = float(d) ** -checks.positive("rate", rate)
    scale = checks.positive("scale", scale)
    shapes = {"W_Q": (d, k), "W_K": (d, k), "W_V": (d, h), "W_1": (h, m), "W_2": (m,)}
    keys = jax.random.split(key, len(shapes))
    return Parameters(
        **{
            name: jnp.asarray(scale) * jax.random.normal(k_, shape, dtype=jnp.result_type(float))
            for k_, (name, shape) in zip(keys, shapes.items(), strict=True)
        }
    )
