"""The condensation condition, Assumption 1 of [CL] (theory.md, section 10)."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from flowsim.observables.norms import scaled, unit_vectors


@jax.jit
def condensation_condition(theta: Any, v: Float[Array, "d"]) -> dict[str, Float[Array, ""]]:
    """Shares of indices and of pairs of indices for which Assumption 1 holds.

    * `A1 hidden`: i in [m] with W_2,i (W_v W_1)_i > 0
    * `A1 value`: i in [h] with W_v,i (W_1 W_2)_i > 0
    * `A2 hidden`: pairs in [m]² with ⟨W_2,i W_1^{·i}, W_2,j W_1^{·j}⟩ > 0
    * `A2 value`: pairs in [h]² with ⟨W_v,i W_1,i·, W_v,j W_1,j·⟩ > 0
    * `A1`, `A2`: both inequalities at once; absent for h ≠ m, where the index sets differ.

    W_v = v W_V. Signs alone count, so matrices, rows and columns are scaled to unit size first and
    no product underflows. A random start has about ½ for a single A1 family, ½ + 1/(2 size) for a
    single A2 family, and about ¼ for `A1` and `A2`.
    """
    W_v = unit_vectors(v @ scaled(theta.W_V)[0])
    W_2 = unit_vectors(theta.W_2)
    hidden, value = unit_vectors(theta.W_1, axis=0), unit_vectors(theta.W_1, axis=1)
    holds = {
        "A1 hidden": W_2 * (W_v @ hidden) > 0,
        "A1 value": W_v * (value @ W_2) > 0,
        "A2 hidden": _same_side(hidden.T, W_2),
        "A2 value": _same_side(value, W_v),
    }
    if W_2.size == W_v.size:
        holds["A1"] = holds["A1 hidden"] & holds["A1 value"]
        holds["A2"] = holds["A2 hidden"] & holds["A2 value"]
    return {name: jnp.mean(held.astype(W_2.dtype)) for name, held in holds.items()}


def _same_side(rows: Float[Array, "a b"], weights: Float[Array, "a"]) -> Bool[Array, "a a"]:
    """Pairs of rows that, each with the sign of its weight, form an acute angle."""
    signed = jnp.sign(weights)[:, None] * rows
    return signed @ signed.T > 0
