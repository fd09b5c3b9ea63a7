"""How much the singular vectors turn between successive states (theory.md, section 10)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.observables.norms import scaled


def singular_vectors(W: Float[Array, "a b"]) -> tuple[Float[Array, "a r"], Float[Array, "r b"]]:
    """Left singular vectors (columns) and right ones (rows) by falling value, r = min(a, b)."""
    left, _, right = jnp.linalg.svd(scaled(W)[0], full_matrices=False)
    return left, right


@jax.jit
def singular_vector_stability(
    W: Float[Array, "a b"], following: Float[Array, "a b"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(left, right): mean over i of |cos(u_i(t), u_i(t+1))|, and the same for v_i.

    1 means that nothing turned (vectors have no sign). Where singular values tie or vanish the
    vectors are arbitrary inside their space, and so is their share of the mean.
    """
    return _compared(singular_vectors(W), singular_vectors(following))


@jax.jit
def stability_along(
    matrices: Float[Array, "times a b"],
) -> tuple[Float[Array, "steps"], Float[Array, "steps"]]:
    """`singular_vector_stability` between successive matrices, one decomposition for each."""

    def step(before: tuple[Array, Array], W: Array) -> tuple:
        now = singular_vectors(W)
        return now, _compared(before, now)

    return jax.lax.scan(step, singular_vectors(matrices[0]), matrices[1:])[1]


def _compared(before: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[Array, Array]:
    left = jnp.mean(jnp.abs(jnp.sum(before[0] * now[0], axis=0)))
    right = jnp.mean(jnp.abs(jnp.sum(before[1] * now[1], axis=1)))
    return left, right
