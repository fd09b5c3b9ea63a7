"""From stage 1 to the condensed network: the matched start (theory.md, section 6)."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.blow_up import BlowUp, blow_up_time
from flowsim.flows import CondensedState, LeadingOrder
from flowsim.flows.leading_order import outer
from flowsim.integrate import integrate
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.network.attention import context
from flowsim.predict.manifold import Manifold, off_direction, off_manifold
from flowsim.predict.span import Span
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

#: The condensed flow starts where 1/(κρ) is this share of T, unless W_1 is larger than ρ there.
SHARE = 0.5


class Match(eqx.Module):
    """Where the condensed flow takes over from the leading-order flow.

    Attributes:
        time: t_c = T − 1/(κρ), the start of the condensed flow.
        radius: ρ, the size of p, q and r there.
        small: ρ over the size at which margins are of order one (`radius_of_order_one`): the small
            parameter of the theory, in proportion to ε.
        switch_time: up to here the composite trajectory is the leading-order flow. It lies after
            t_c: the condensed solution has relative error (ε/ρ)² there, the leading-order one ρ².
        state: p = ρ v + R n, q = r = ρ m and the keys and queries of the start, in the coordinates
            of `manifold.span`. R n with R = W_V(0) − v ⊗ v W_V(0) is the part of W_V n that stage 1
            leaves as it is.
        manifold: n and the remainders beside the manifold, from the leading-order flow.
    """

    time: float
    radius: float
    small: float
    switch_time: float
    state: CondensedState
    manifold: Manifold


class Drive(eqx.Module):
    """The leading-order flow with the attention of the start, which stage 1 leaves as it is.

    S = (1/n) Σ_i y_i a_i X_i with a_i from W_Q(0), W_K(0) in place of the mean tokens; v along S
    (against it where σ'(0) < 0), κ = |ℓ'(0) σ'(0)| ‖S‖ and the blow-up for these. They differ from
    those of theory.md, section 2, by O(ε²), and the blow-up time by O(ε) since T = O(1/ε): that
    would be an error of the first order in ε of everything that follows.
    """

    direction: Float[Array, "d"]
    kappa: float
    blow_up: BlowUp

    @property
    def blow_up_time(self) -> float:
        """T in training time."""
        return float(self.blow_up.time) / self.kappa


def drive(net: OneLayerTransformer, task: Task, theta0: Parameters) -> Drive:
    """The leading-order flow at the attention of theta0."""
    attention = net.attention_weights(theta0.W_Q, theta0.W_K, task.X)
    S = task.y @ context(task.X, attention) / task.size * net.slope
    strength = jnp.linalg.norm(S)
    v = S / strength
    return Drive(v, float(-net.margin_loss.slope * strength), blow_up_time(*outer(theta0, v)))


def radius_of_order_one(net: OneLayerTransformer, task: Task) -> float:
    """The size ρ of p, q, r at which margins are of order one: |σ'(0)| ρ³ rms(x̄_i·v) = 1."""
    along = task.mean_tokens @ task.direction
    return float((abs(net.slope) * jnp.sqrt(jnp.mean(along**2))) ** (-1 / 3))


def radii(
    net: OneLayerTransformer, task: Task, theta0: Parameters, drive: Drive
) -> tuple[float, float]:
    """ρ at the start of the condensed flow and ρ where the composite trajectory switches to it.

    Both scale with the weights; ε itself does not enter. The first is the size that the poles
    1/(κ(T − t)) have half-way to T, or that of the start (spectral norm) if that is larger; the
    second is the geometric mean of the first and the size at which margins are of order one.
    """
    W_v, W_1, W_2 = (np.asarray(W) for W in outer(theta0, drive.direction))
    sizes = np.linalg.norm(W_v), np.linalg.norm(W_1, 2), np.linalg.norm(W_2)
    radius = max(1 / (SHARE * drive.kappa * drive.blow_up_time), *map(float, sizes))
    return radius, max(radius, math.sqrt(radius * radius_of_order_one(net, task)))


def matched_start(
    net: OneLayerTransformer, task: Task, theta0: Parameters, by: Drive, span: Span, rtol: Any
) -> tuple[Trajectory, Match]:
    """The leading-order flow up to the switch, and the match, for a start that blows up."""
    T, v, kappa = by.blow_up_time, by.direction, by.kappa
    radius, switch_radius = radii(net, task, theta0, by)
    switch_time = T - 1 / (kappa * switch_radius)
    stage_1 = integrate(LeadingOrder(task, kappa, v), theta0, switch_time, rtol=rtol)
    n, m = jnp.asarray(by.blow_up.value_direction), jnp.asarray(by.blow_up.hidden_direction)
    R = off_direction(theta0, v)
    whole = CondensedState(
        p=radius * v + R @ n, q=radius * m, r=radius * m, W_Q=theta0.W_Q, W_K=theta0.W_K
    )
    state, still = (_tokens_mapped(f, whole) for f in (span.into, span.across))
    R_V, R_1 = R - jnp.outer(R @ n, n), off_manifold(stage_1.final.W_1, n, m)
    manifold = Manifold(n, R_V, R_1, span, still)
    small = radius / radius_of_order_one(net, task)
    return stage_1, Match(T - 1 / (kappa * radius), radius, small, switch_time, state, manifold)


def _tokens_mapped(function: Callable, state: CondensedState) -> CondensedState:
    """The state with a function of token space applied to p, W_Q and W_K."""
    return CondensedState(
        function(state.p), state.q, state.r, function(state.W_Q), function(state.W_K)
    )
