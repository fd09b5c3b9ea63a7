"""A planted task: labels follow the token that a fixed attention map selects."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.tasks.task import Task

#: Standard deviations of tokens along the planted q (query), k (key), u (label), and across.
#: Strong queries and keys make the map M = q kᵀ stand out of the sampling noise of F [CL 15].
ALONG = (2.0, 2.0, 1.0)
ACROSS = 0.3
#: Weight g of the mean signal against the selected token's.
MEAN_WEIGHT = 0.5


def gaussian(samples: int = 200, length: int = 8, width: int = 16, *, key: Any = None) -> Task:
    """Gaussian tokens whose labels need the mean token and an attention map.

    With orthonormal q, k, u, drawn once, the map M = q kᵀ selects the token
    j*_i = argmax_{j<s} X_{i,s} M X_ijᵀ, and y_i = sign( u · (X_{i,j*} + g √s x̄_i) ), g = 1/2.
    The mean tokens carry part of the signal (stage 1 starts towards u) but do not separate the
    labels of enough samples (stage 1 ends on a plateau); the rest needs attention: the top
    singular vectors of F [CL 15] are close to q and k (stage 2). Tokens are N(0, 2²) along q and
    k, N(0, 1) along u, N(0, 0.3²) across; the query X_{i,s} has no part along u.

    Args:
        samples: n.
        length: tokens a sample, s ≥ 2.
        width: token width d ≥ 3.
        key: of all draws; None is `jax.random.key(0)`.
    """
    n = checks.integer("samples", samples)
    s = checks.integer("length", length, low=2)
    d = checks.width("width", width, low=3)
    key = jax.random.key(0) if key is None else checks.key("key", key)
    frame_key, token_key = jax.random.split(key)
    planted = _frame(frame_key, d)
    X = _tokens(token_key, (n, s, d), planted)
    return Task(X, _labels(X, planted), name="gaussian")


def _normal(key: Array, shape: tuple[int, ...]) -> np.ndarray:
    """N(0, 1) entries, on the host: the rest of a task's making needs no compilation."""
    return np.asarray(jax.random.normal(key, shape, dtype=jnp.result_type(float)))


def _frame(key: Array, d: int) -> Float[np.ndarray, "3 d"]:
    """Three orthonormal directions q, k, u."""
    return np.linalg.qr(_normal(key, (d, 3)))[0].T


def _tokens(
    key: Array, shape: tuple[int, int, int], planted: Float[np.ndarray, "3 d"]
) -> Float[np.ndarray, "n s d"]:
    draw = _normal(key, shape)
    along = draw @ planted.T
    across = draw - along @ planted
    along = along * np.asarray(ALONG, dtype=along.dtype)
    along[:, -1, 2] = 0
    return along @ planted + ACROSS * across


def _labels(
    X: Float[np.ndarray, "n s d"], planted: Float[np.ndarray, "3 d"]
) -> Float[np.ndarray, "n"]:
    q, k, u = planted
    scores = (X[:, -1] @ q)[:, None] * (X[:, :-1] @ k)
    chosen = np.argmax(scores, axis=1)
    signal = (X @ u)[np.arange(X.shape[0]), chosen]
    mean = X.shape[1] ** 0.5 * X.mean(axis=1) @ u
    return np.where(signal + MEAN_WEIGHT * mean >= 0, 1.0, -1.0)
