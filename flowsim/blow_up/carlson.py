"""Carlson's symmetric elliptic integral R_F, by duplication, in real arithmetic."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

#: Duplication stops when the arguments agree to this; the series then errs by less than 1e-18.
SPREAD = 0.07
ORDER = 13


def _series_terms() -> list[tuple[int, int, float]]:
    """(m₂, m₃, c) of R_F · sqrt(mean) = Σ c E₂^m₂ E₃^m₃ up to 2m₂ + 3m₃ = 13 (DLMF 19.19.7)."""
    terms = []
    for m2 in range(ORDER // 2 + 1):
        for m3 in range((ORDER - 2 * m2) // 3 + 1):
            order, count = 2 * m2 + 3 * m3, m2 + m3
            rising = math.prod(0.5 + k for k in range(count))
            size = rising / (math.factorial(m2) * math.factorial(m3) * (2 * order + 1))
            terms.append((m2, m3, size * (-1) ** (order + count)))
    return sorted(terms, key=lambda term: -(2 * term[0] + 3 * term[1]))


def elliptic_rf(
    x: Float[Array, "..."], total: Float[Array, "..."], product: Float[Array, "..."]
) -> Float[Array, "..."]:
    """R_F(x, y, z) = ½ ∫₀^∞ ds / sqrt((s+x)(s+y)(s+z)) of y + z = `total` and yz = `product`.

    y and z may be real or a complex pair: duplication needs only sqrt(yz) and
    (sqrt y + sqrt z)² = y + z + 2 sqrt(yz), so nothing cancels (DLMF 19.26.18, 19.36.1).
    All three arguments are ≥ 0; two zeros give infinity.
    """
    infinite = (product == 0) & ((x == 0) | (total == 0))
    start = (x, total, jnp.sqrt(product))
    safe = tuple(
        jnp.where(infinite, one, value) for one, value in zip((1.0, 2.0, 1.0), start, strict=True)
    )
    x, total, root = jax.lax.while_loop(_apart, _duplicate, tuple(jnp.broadcast_arrays(*safe)))
    return jnp.where(infinite, jnp.inf, _series(x, total, root))


def _deviations(x, total, root):
    """The mean, X = 1 − x/mean, and YZ (X + Y + Z = 0)."""
    mean = (x + total) / 3
    return mean, 1 - x / mean, 1 - total / mean + (root / mean) * (root / mean)


def _apart(arguments):
    _, X, YZ = _deviations(*arguments)
    return jnp.any((jnp.abs(X) > SPREAD) | (jnp.abs(YZ) > SPREAD**2))


def _duplicate(arguments):
    """One step: every argument a becomes (a + λ)/4, λ = √x√y + √x√z + √y√z."""
    x, total, root = arguments
    shift = jnp.sqrt(x) * jnp.sqrt(total + 2 * root) + root
    product = root * root + shift * (total + shift)
    return (x + shift) / 4, (total + 2 * shift) / 4, jnp.sqrt(product) / 4


def _series(x, total, root):
    """The expansion about equal arguments, its smallest terms first."""
    mean, X, YZ = _deviations(x, total, root)
    e2, e3 = YZ - X * X, X * YZ
    return sum(c * e2**m2 * e3**m3 for m2, m3, c in _series_terms()) / jnp.sqrt(mean)
