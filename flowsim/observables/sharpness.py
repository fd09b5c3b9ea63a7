"""Sharpness: the largest eigenvalue of the loss's Hessian, without a Hessian."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from flowsim.network import OneLayerTransformer, Parameters
from flowsim.tasks import Task

#: Lanczos steps: enough for six digits on the one-layer model, whose top eigenvalues stand apart.
STEPS = 24


def sharpness(
    net: OneLayerTransformer, task: Task, theta: Parameters, steps: int = STEPS
) -> Float[Array, ""]:
    """λ_max of ∇²L(θ), in units of 1/training time.

    Gradient descent with rate η follows the gradient flow only where λ_max < 2/η, heavy ball where
    λ_max < 2(1 + β)/η: beyond it a step overshoots along the top eigenvector
    (theory.md, section 9).

    `steps` Hessian-vector products by Lanczos; the result is a lower bound that converges fast.
    `eqx.Partial(sharpness, net, task)` is the function of one state that `along` takes.
    """
    vector, restore = ravel_pytree(theta)
    gradient = jax.grad(lambda vector: net.loss(restore(vector), task))
    start = jax.random.normal(jax.random.key(0), vector.shape, vector.dtype)
    return top_eigenvalue(jax.linearize(gradient, vector)[1], start, steps)


def top_eigenvalue(
    product: Callable[[Any], Any], start: Float[Array, "p"], steps: int
) -> Float[Array, ""]:
    """Largest eigenvalue of a symmetric linear map, by Lanczos with full reorthogonalisation.

    With α_j = q_j·Hq_j and β_j the length of what Hq_j adds to the Krylov space, the largest
    eigenvalue of tridiag(β, α, β) grows towards λ_max (Golub & Van Loan, section 10.1).

    Args:
        product: vector → H vector.
        start: first direction, not zero, with a part along the top eigenvector.
        steps: products, at most the size of the space.
    """
    steps = min(steps, start.size)
    tiny = jnp.finfo(start.dtype).eps

    def extend(j, state):
        basis, alpha, beta = state
        q = basis[j]
        w = product(q)
        alpha = alpha.at[j].set(q @ w)
        size = jnp.linalg.norm(w)
        for _ in range(2):
            w = w - (basis @ w) @ basis
        length = jnp.linalg.norm(w)
        # an invariant subspace: what follows is zero, and may not count as an eigenvalue
        grows = length > 8 * tiny * size
        beta = beta.at[j].set(jnp.where(grows, length, 0))
        following = jnp.where(grows, w / jnp.where(grows, length, 1), 0)
        return basis.at[j + 1].set(following, mode="drop"), alpha, beta

    basis = jnp.zeros((steps, start.size), start.dtype)
    basis = basis.at[0].set(start / jnp.linalg.norm(start))
    zeros = jnp.zeros(steps, start.dtype)
    basis, alpha, beta = jax.lax.fori_loop(0, steps, extend, (basis, zeros, zeros))
    used = jnp.sum(basis**2, axis=1) > 0
    alpha = jnp.where(used, alpha, alpha[0])
    side = jnp.diag(beta[:-1], 1)
    return jnp.linalg.eigvalsh(jnp.diag(alpha) + side + side.T)[-1]
