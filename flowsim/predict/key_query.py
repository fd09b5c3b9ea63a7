"""Stage 2 in closed form: the key-query flow of a constant F  [CL 14] (theory.md, section 7)."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks

#: Singular values within this share of σ₁ count as tied with it.
TIED = 0.05


class KeyQuerySolution(eqx.Module):
    """Exact solution of Ẇ_Q = F W_K, Ẇ_K = Fᵀ W_Q from W_Q(0), W_K(0), in training time.

    With F = U Σ Vᵀ (full factors): UᵀW_Q(t) = cosh(Σt) UᵀW_Q(0) + sinh(Σt) VᵀW_K(0) and
    VᵀW_K(t) = sinh(Σt) UᵀW_Q(0) + cosh(Σt) VᵀW_K(0).
    """

    left: Float[Array, "d d"]
    rates: Float[Array, "d"]
    right: Float[Array, "d d"]
    queries: Float[Array, "d k"]
    keys: Float[Array, "d k"]

    def __init__(self, F: Any, W_Q: Any, W_K: Any):
        F = checks.array("F", F, ndim=2)
        W_Q, W_K = checks.array("W_Q", W_Q, ndim=2), checks.array("W_K", W_K, ndim=2)
        checks.same_size("axis 0 of F", F.shape[0], "axis 1 of F", F.shape[1])
        checks.same_size("axis 0 of W_Q", W_Q.shape[0], "axis 0 of F", F.shape[0])
        checks.same_size("axis 0 of W_K", W_K.shape[0], "axis 1 of F", F.shape[1])
        self.left, self.rates, right = jnp.linalg.svd(F)
        self.right = right.T
        self.queries, self.keys = self.left.T @ W_Q, right @ W_K

    def __call__(self, t: Any) -> tuple[Float[Array, "d k"], Float[Array, "d k"]]:
        """(W_Q(t), W_K(t)), t ≥ 0; infinite where they are beyond floating point."""
        W_Q, W_K, exponent = self.scaled(t)
        return jnp.exp(exponent) * W_Q, jnp.exp(exponent) * W_K

    def scaled(self, t: Any) -> tuple[Float[Array, "d k"], Float[Array, "d k"], Float[Array, ""]]:
        """(W_Q(t) e^{−σ₁t}, W_K(t) e^{−σ₁t}, σ₁t), t ≥ 0: never overflows."""
        t = jnp.asarray(checks.number("t", t), self.rates.dtype)
        if not checks.is_traced(t) and not float(t) >= 0:
            raise checks.fail("t", "not be negative", float(t))
        fading = jnp.exp((self.rates - self.rates[0]) * t)[:, None] / 2
        cosh = fading * (1 + jnp.exp(-2 * self.rates * t)[:, None])
        sinh = -fading * jnp.expm1(-2 * self.rates * t)[:, None]
        W_Q = self.left @ (cosh * self.queries + sinh * self.keys)
        W_K = self.right @ (sinh * self.queries + cosh * self.keys)
        return W_Q, W_K, self.rates[0] * t

    def limit(self) -> tuple[Float[Array, "d k"], Float[Array, "d k"]]:
        """W_Q/‖W_Q‖ → u₁gᵀ and W_K/‖W_K‖ → v₁gᵀ, g ∝ u₁ᵀW_Q(0) + v₁ᵀW_K(0), for a simple σ₁.

        Reached at the rate min(σ₁ − σ₂, 2σ₁)  [CL Theorem 3]; zero where g's right side is.
        """
        g = self.queries[0] + self.keys[0]
        length = jnp.linalg.norm(g)
        g = g / jnp.where(length > 0, length, 1)
        return jnp.outer(self.left[:, 0], g), jnp.outer(self.right[:, 0], g)


class Growth(eqx.Module):
    """How keys and queries grow under a constant F, in units of 1/(training time).

    Attributes:
        rate: σ₁, the rate of growth; 0 where F vanishes (no stage 2).
        collapse_rate: σ₁ − σ₂, the rate of collapse to rank one.
        multiplicity: how many singular values lie within five percent of σ₁: where it exceeds one
            the collapse is to that rank first, and to rank one late or never.
    """

    rate: float
    collapse_rate: float
    multiplicity: int = eqx.field(static=True)

    @property
    def tied(self) -> bool:
        """Whether the gap σ₁ − σ₂ is too small for a clear collapse to rank one."""
        return self.multiplicity != 1


def growth_of(F: Float[Array, "d d"], size: float) -> Growth:
    """σ₁, σ₁ − σ₂ and the multiplicity; F counts as zero below rounding of its terms' `size`."""
    values = jnp.linalg.svd(F, compute_uv=False)
    rate = float(values[0])
    if not rate > 64 * float(jnp.finfo(F.dtype).eps) * size:
        return Growth(0.0, 0.0, int(values.size))
    gap = float(values[0] - values[1]) if values.size > 1 else rate
    return Growth(rate, gap, int(jnp.sum(values >= (1 - TIED) * values[0])))


def onset_estimate(blow_up: float, start_scale: float, level: float, growth: Growth) -> float:
    """T + (1/σ₁) ln(δ/ε): when keys and queries of size ε reach a level δ (theory.md, section 7).

    Infinite where nothing grows.
    """
    if not growth.rate > 0 or not start_scale > 0:
        return float("inf")
    return blow_up + float(jnp.log(level / start_scale)) / growth.rate
