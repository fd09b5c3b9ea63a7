"""The condensed manifold inside the full weights, and what the start leaves beside it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.flows import CondensedState, embed
from flowsim.network import Parameters
from flowsim.predict.span import Span


class Manifold(eqx.Module):
    """W_V = p nᵀ + R_V, W_1 = n qᵀ + R_1, W_2 = r with R_V n = 0 and nᵀR_1 = 0.

    p, W_Q and W_K of its states are given in the coordinates of `span`; `still` is what they are
    across it. There the whole model is the same (see `Span`).

    With R_V = R_1 = 0 this is the invariant manifold of theory.md, section 6. The remainders are
    what condensation leaves of the start, of order ε: R_V is W_V(0) off v and n, R_1 is the part of
    W_1 off n and m.
    """

    n: Float[Array, "h"]
    R_V: Float[Array, "d h"]
    R_1: Float[Array, "h m"]
    span: Span
    still: CondensedState

    def weights(self, state: CondensedState) -> Parameters:
        """θ at a condensed state."""
        theta = embed(self.whole(state), self.n)
        return Parameters(
            theta.W_Q, theta.W_K, theta.W_V + self.R_V, theta.W_1 + self.R_1, theta.W_2
        )

    def rate(self, rate: CondensedState) -> Parameters:
        """θ̇ for a rate of the condensed flow; the remainders stand still."""
        back = self.span.back
        rate = CondensedState(back(rate.p), rate.q, rate.r, back(rate.W_Q), back(rate.W_K))
        return embed(rate, self.n)

    def whole(self, state: CondensedState) -> CondensedState:
        """The state in the coordinates of the task."""
        back, still = self.span.back, self.still
        return CondensedState(
            p=back(state.p) + still.p,
            q=state.q,
            r=state.r,
            W_Q=back(state.W_Q) + still.W_Q,
            W_K=back(state.W_K) + still.W_K,
        )


class OnManifold(eqx.Module):
    """A condition of an event of the full model, asked of condensed states."""

    condition: Callable
    manifold: Manifold

    def __call__(self, t: Any, state: CondensedState, args: Any, *rate: CondensedState) -> Array:
        """condition(t, θ, args[, θ̇])."""
        rates = [self.manifold.rate(r) for r in rate]
        return self.condition(t, self.manifold.weights(state), args, *rates)


def beta(state: CondensedState) -> Float[Array, "d"]:
    """β = W_V W_1 W_2 = (q·r) p at a condensed state."""
    return state.p * jnp.sum(state.q * state.r)


def off_direction(theta0: Parameters, v: Float[Array, "d"]) -> Float[Array, "d h"]:
    """W_V(0) − v ⊗ v W_V(0): the part of W_V that stage 1 leaves as it is."""
    return theta0.W_V - jnp.outer(v, v @ theta0.W_V)


def off_manifold(W_1: Float[Array, "h m"], n: Any, m: Any) -> Float[Array, "h m"]:
    """(1 − nnᵀ) W_1 (1 − mmᵀ)."""
    rows = W_1 - jnp.outer(n, n @ W_1)
    return rows - jnp.outer(rows @ m, m)
