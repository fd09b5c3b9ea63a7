"""Taylor series of the Garnier system and of its linearisation, in plain double precision."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

#: Order of the series, and a step's share of the radius of convergence. A step is used from both
#: of its ends: from the far one it is REACH/(1 − REACH) of the radius.
ORDER = 20
REACH = 0.14
#: Nodes of Gauss's quadrature on a step; the integrand has twice the order.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
ORDERS = np.arange(ORDER + 1.0)
#: Tables for `evaluated`: at the end of a step, at the end of a step back (row 0: the value, row 1:
#: step · derivative), at the nodes of a step back.
AHEAD = np.stack([ORDERS**0, ORDERS])
BACK = np.stack([(-1.0) ** ORDERS, ORDERS * (-1.0) ** (ORDERS + 1)])
NODES_BACK = (-(NODES[:, None] + 1) / 2) ** ORDERS
#: Entry (k, (i, j)) is 1 where i + j = k.
SAME_SUM = np.float64(np.add.outer(ORDERS, ORDERS).ravel() == ORDERS[:, None])


class Field(NamedTuple):
    """A and D of q̈ = (2‖q‖² − D) q − A q (theory.md, section 4)."""

    curvature: Float[Array, "h h"]
    shift: Float[Array, ""]

    def bent(self, vectors: Float[Array, "rows h"]) -> Float[Array, "rows h"]:
        """(D + A) v for every row."""
        return self.shift * vectors + vectors @ self.curvature


def solution_series(
    field: Field, q: Float[Array, " h"], p: Float[Array, " h"]
) -> Float[Array, "orders h"]:
    """a_k with s_k = Σ_j a_j·a_{k−j}, (k+1)(k+2) a_{k+2} = 2 Σ_j s_j a_{k−j} − (D + A) a_k.

    Two at a time: both a_{k+2} and a_{k+3} follow from a_0 … a_{k+1}.
    """
    a, s = [q, p], []
    for k in range(0, ORDER - 1, 2):
        bent = field.bent(jnp.stack(a[k:]))
        s += _products(a, a, k)
        a += _next_two([2 * _convolved(s, a, n) for n in (k, k + 1)], bent, k)
    return jnp.stack(a[: ORDER + 1])


def variation_series(
    field: Field,
    solution: Float[Array, "orders h"],
    v: Float[Array, " h"],
    slope: Float[Array, " h"],
) -> Float[Array, "orders h"]:
    """Coefficients of ν̈ = (2‖q‖² − D) ν + 4 (q·ν) q − A ν along q = Σ a_k t^k."""
    a, nu, d = list(solution), [v, slope], []
    s = list(self_products(solution))
    for k in range(0, ORDER - 1, 2):
        bent = field.bent(jnp.stack(nu[k:]))
        d += _products(a, nu, k)
        total = [2 * _convolved(s, nu, n) + 4 * _convolved(d, a, n) for n in (k, k + 1)]
        nu += _next_two(total, bent, k)
    return jnp.stack(nu[: ORDER + 1])


def _products(a, b, k):
    """Σ_j a_j·b_{n−j} for n = k, k + 1; a barrier keeps a stage out of the next one's loops."""
    sums = [sum(a[j] * b[n - j] for j in range(n + 1)) for n in (k, k + 1)]
    return list(jax.lax.optimization_barrier(jnp.sum(jnp.stack(sums), axis=1)))


def _convolved(scalars, vectors, n):
    return sum(scalars[j] * vectors[n - j] for j in range(n + 1))


def _next_two(total, bent, k):
    new = [(total[i] - bent[i]) / ((k + i + 1) * (k + i + 2)) for i in (0, 1)]
    return list(jax.lax.optimization_barrier(jnp.stack(new)))


def self_products(a: Float[Array, "orders h"]) -> Float[Array, "orders"]:
    """Σ_j a_j·a_{k−j}, k ≤ ORDER."""
    return SAME_SUM @ (a @ a.T).ravel()


def evaluated(
    series: Float[Array, "orders h"],
    step: Float[Array, ""],
    table: Float[np.ndarray, "rows orders"],
) -> Float[Array, "rows h"]:
    """Σ_k table_ik step^k a_k, step > 0: values, or values of step · derivative."""
    return jnp.asarray(table) @ (series * step ** jnp.arange(ORDER + 1.0)[:, None])
