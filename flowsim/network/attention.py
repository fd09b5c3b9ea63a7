"""Attention of the last token to all tokens of its sequence  [CL 2].

Only the last token decides f (theory.md, section 1), so beside the products of the last tokens with
W_Q W_Kᵀ its scores and context cost O(n s d); the s×s attention matrix is never formed.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.network.products import chain

KINDS = ("softmax", "first_order", "uniform")


def attention_weights(
    kind: str, W_Q: Float[Array, "d k"], W_K: Float[Array, "d k"], X: Float[Array, "n s d"]
) -> Float[Array, "n s"]:
    """a_ij of one of `KINDS` from the scores X_{i,s} W_Q W_Kᵀ X_ijᵀ / sqrt(k)  [CL 2]."""
    n, s, _ = X.shape
    if kind == "uniform":
        return jnp.full((n, s), 1 / s, X.dtype)
    queries = chain(X[:, -1, :], W_Q / W_Q.shape[1] ** 0.5, W_K.T)
    return normalised(kind, jnp.einsum("nd,nsd->ns", queries, X))


def normalised(kind: str, scores: Float[Array, "n s"]) -> Float[Array, "n s"]:
    """softmax_j of the scores, or its first order 1/s + (scores_ij − mean_j scores_ij)/s."""
    if kind == "softmax":
        return jax.nn.softmax(scores, axis=1)
    return (1 + scores - jnp.mean(scores, axis=1, keepdims=True)) / scores.shape[1]


def context(X: Float[Array, "n s d"], weights: Float[Array, "n s"]) -> Float[Array, "n d"]:
    """Σ_j a_ij X_ij, the input of the value matrix."""
    return jnp.einsum("ns,nsd->nd", weights, X)
