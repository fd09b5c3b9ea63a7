"""Carlson's symmetric elliptic integral R_F, by duplication, in real arithmetic of two parts."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.blow_up.pairs import Pair, add, divide, multiply, pair, square_root, times

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

    y and z may be real or a complex pair; all three arguments are ≥ 0; two zeros give infinity.
    """
    x, total, product = jnp.broadcast_arrays(x, total, product)
    return elliptic_rf_of_pairs(pair(x), pair(total), square_root(pair(product)))


def elliptic_rf_of_pairs(x: Pair, total: Pair, root: Pair) -> Float[Array, "..."]:
    """R_F(x, y, z) to the last digit, of y + z = `total` and sqrt(yz) = `root` in two parts each.

    Duplication needs only sqrt(yz) and (√y + √z)² = y + z + 2 sqrt(yz), so complex pairs are real
    arithmetic and nothing cancels (DLMF 19.26.18, 19.36.1).
    """
    infinite = (root[0] == 0) & ((x[0] == 0) | (total[0] == 0))
    finite = [
        (jnp.where(infinite, one, high), jnp.where(infinite, 0.0, low))
        for one, (high, low) in zip((1.0, 2.0, 1.0), (x, total, root), strict=True)
    ]
    x, total, root = jax.lax.while_loop(_apart, _duplicate, tuple(finite))
    return jnp.where(infinite, jnp.inf, _series(x, total, root))


def _deviations(x, total, root):
    """X = 1 − x/mean and YZ (X + Y + Z = 0)."""
    mean = (x + total) / 3
    return 1 - x / mean, 1 - total / mean + (root / mean) * (root / mean)


def _apart(arguments):
    X, YZ = _deviations(*(high for high, _ in arguments))
    return jnp.any((jnp.abs(X) > SPREAD) | (jnp.abs(YZ) > SPREAD**2))


def _duplicate(arguments):
    """One step: every argument a becomes (a + λ)/4, λ = √x(√y + √z) + √y√z."""
    x, total, root = arguments
    outer = multiply(square_root(x), square_root(add(total, times(root, 2.0))))
    shift = add(outer, root)
    product = add(multiply(root, root), multiply(shift, add(total, shift)))
    x, total = add(x, shift), add(total, times(shift, 2.0))
    return times(x, 0.25), times(total, 0.25), times(square_root(product), 0.25)


def _series(x, total, root):
    """The expansion about equal arguments, its smallest terms first, over sqrt(mean)."""
    X, YZ = _deviations(x[0], total[0], root[0])
    e2, e3 = YZ - X * X, X * YZ
    small = sum(c * e2**m2 * e3**m3 for m2, m3, c in _series_terms() if m2 + m3 > 0)
    three = pair(jnp.full_like(X, 3.0))
    high, low = divide(pair(jnp.ones_like(X)), square_root(divide(add(x, total), three)))
    return high + (low + high * small)
