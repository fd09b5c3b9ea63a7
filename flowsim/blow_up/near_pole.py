"""The last stretch before the pole: the gradient of T* is regular there, and known at T* itself.

With τ = T* − t, q = n/τ + O(τ), and ν = ∂T*/∂q̇ is the solution of the linearised equation (which
is its own adjoint) that starts at τ = 0 as −τ³ n/5: the other solutions, n/τ² (a shift of T*),
e/τ (a turn of n) and τ² e, are excluded by their pairing with it; the factor is that of
∇T*·(q̇, q̈) = −1.
"""

from math import comb
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.blow_up.variation import NODES, ORDER, WEIGHTS, Field, self_products

#: Terms of ν in powers of τ. Rounding noise in the coefficients of q is binomially large, but only
#: as coefficients; with this many terms of ν it cancels again.
TERMS = 2 * ORDER
ORDERS = np.arange(3.0, TERMS + 3)
PLACES = (NODES + 1) / 2
POWERS = PLACES[:, None] ** ORDERS
REGULAR = (1 - PLACES[:, None]) ** np.arange(ORDER + 1.0)
#: Σ r_j (1 − v)^j = Σ b_k v^k.
SHIFT = np.array([[(-1.0) ** k * comb(j, k) for j in range(ORDER + 1)] for k in range(ORDER + 1)])


class Stretch(NamedTuple):
    """ν, ν̇ at a state, and nodes for integrals over the time from there to T*."""

    value: Float[Array, " h"]
    slope: Float[Array, " h"]
    gradients: Float[Array, "nodes h"]
    states: Float[Array, "nodes h"]
    weights: Float[Array, "nodes"]


def distance_to_pole(a: Float[Array, "orders h"]) -> tuple[Array, Array]:
    """τ = (u·a_{N−1})/(u·a_N), u along a_N, and how far the last coefficients are from a pole's."""
    size = jnp.max(jnp.abs(a[ORDER]))
    last = a[ORDER - 3 :] / size
    along = last @ last[-1]
    ratios = along[:-1] / along[1:]
    distance = ratios[-1]
    residue = size * jnp.sqrt(along[-1]) * distance ** (ORDER + 1)
    return distance, jnp.max(jnp.abs(ratios / distance - 1)) + jnp.abs(residue - 1)


def before_pole(field: Field, a: Float[Array, "orders h"], tau: Float[Array, ""]) -> Stretch:
    """ν at the state whose series is a, τ before the pole."""
    n = a[ORDER] / jnp.sqrt(jnp.sum(a[ORDER] ** 2))
    regular = a * tau ** jnp.arange(1.0, ORDER + 2)[:, None] - n  # q = (n/v + R)/τ, v = 1 − t/τ
    c = _gradient_series(field, n, SHIFT @ regular, tau)
    states = n / PLACES[:, None] + REGULAR @ regular
    return Stretch(
        value=jnp.sum(c, axis=0) * tau**3,
        slope=-(ORDERS @ c) * tau**2,
        gradients=(POWERS @ c) * tau**3,
        states=states / tau,
        weights=jnp.asarray(WEIGHTS / 2) * tau,
    )


def _gradient_series(field, n, b, tau):
    """c_3, c_4, … of ν = τ³ Σ c_k v^k along q = (n/v + Σ b_j v^j)/τ.

    [(k − 2)(k + 1) − 4 n nᵀ] c_k = 2 Σ_j σ_j c_{k−1−j} + 4 n Σ_j b_j·c_{k−1−j}
    + 4 Σ_j b_j e_{k−2−j} − τ² (D + A) c_{k−2}, with ‖τ q‖² = v^{−2} + Σ_j σ_j v^{j−1} and
    e_m = n·c_{m+1} + Σ_j b_j·c_{m−j} the coefficients of τ q·ν.
    """
    sigma = 2 * (b @ n) + jnp.concatenate([jnp.zeros(1), self_products(b)[:-1]])

    def push(rows, row):
        return jnp.concatenate([row[None], rows[:-1]])

    def next_term(carry, k):
        c, e = carry  # the newest first
        dot = jnp.sum(b * c)
        right = 2 * (sigma @ c) + 4 * (dot * n + e @ b) - tau**2 * field.bent(c[1:2])[0]
        radial, factor = n @ right, (k - 2) * (k + 1)
        new = (right - radial * n) / factor + n * (radial / (factor - 4))
        return (push(c, new), push(e, n @ new + dot)), new

    rows = jnp.zeros((ORDER + 1, n.size))
    first = -n / 5
    carry = (rows.at[0].set(first), rows[:, 0].at[0].set(n @ first))
    _, rest = jax.lax.scan(next_term, carry, jnp.asarray(ORDERS[1:]))
    return jnp.concatenate([first[None], rest])
