"""Perturbations across the condensed manifold: their growth, and how long to trust (new).

Write W_V = p nᵀ + R_V and W_1 = n qᵀ + R_1 with R_V n = 0, nᵀR_1 = 0. Then
W_V W_1 = p qᵀ + R_V R_1, so the loss feels the remainders at second order only, and to first order
they obey the linear flow

    Ṙ_V = G R_1ᵀ,   Ṙ_1 = R_Vᵀ G,   G = −∂L/∂(W_V W_1) ∈ R^{d×m} at the condensed state,

whose growth rates are the singular values of G(t): the transverse part of the full model's Jacobian
is that block, once for each of the h − 1 directions orthogonal to n. The prediction errs by about
‖R_V R_1‖/(‖p‖ ‖q‖), which is of order ε² e^{2∫λ}.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.flows import CondensedState
from flowsim.network import OneLayerTransformer
from flowsim.network.attention import context
from flowsim.outcome import Outcome
from flowsim.predict.manifold import Manifold
from flowsim.predict.records import speeds
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

#: Relative size of R_V R_1 up to which the prediction is trusted.
TRUSTED_SHARE = 0.01
#: Spacing of the times at which G is computed, in units of 1/κ, and how many there are at most.
SPACING, POINTS = 0.2, 400
#: Intervals whose G is computed at once.
BLOCK = 16


class Transverse(eqx.Module):
    """The remainders along the condensed flow.

    Attributes:
        rate: λ, the largest growth rate ‖G(t)‖ found from T on, in units of 1/(training time).
        times, rates, share: ‖G‖ and ‖R_V R_1‖/(‖p‖ ‖q‖) at times from the switch of the match
            until they are not trusted, or the end.
        trusted_until: the first time after T at which the share exceeds a hundredth; infinite
            where it does not.
        remainders: a `Trajectory` of (R_V, R_1) at these times.
    """

    rate: float
    times: Float[np.ndarray, "T"]
    rates: Float[np.ndarray, "T"]
    share: Float[np.ndarray, "T"]
    trusted_until: float
    remainders: Trajectory

    def at(self, times: Any) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """(R_V, R_1) and their rates at each time; outside `self.times` they stand still."""
        inside = np.clip(times, self.times[0], self.times[-1])
        moving = (np.asarray(times) == inside).astype(float)[:, None, None]
        R = self.remainders.evaluate(inside)
        rate = speeds(self.remainders).evaluate(inside)
        return R, (moving * rate[0], moving * rate[1])


def pull(net: OneLayerTransformer, task: Task, state: CondensedState) -> Float[Array, "d m"]:
    """G = −∂L/∂(W_V W_1) = (1/n) Σ_i −ℓ' y_i (a_i X_i)ᵀ (σ'(z_i q) ∘ r), z_i = a_i X_i p."""
    mixed = context(task.X, net.attention_weights(state.W_Q, state.W_K, task.X))

    def gain(product: Float[Array, "d m"]) -> Float[Array, ""]:
        outputs = net.activation(mixed @ product) @ state.r
        return -jnp.mean(net.margin_loss(task.y * outputs))

    return jax.grad(gain)(jnp.outer(state.p, state.q))


@eqx.filter_jit
def _pulls(net: OneLayerTransformer, task: Task, states: Any) -> Float[Array, "T d m"]:
    return jax.lax.map(lambda state: pull(net, task, state), states)


def transverse_flow(
    net: OneLayerTransformer,
    task: Task,
    run: Trajectory,
    manifold: Manifold,
    start: float,
    blow_up_time: float,
) -> Transverse:
    """The remainders along a condensed run, from `start` on; they were constant before."""
    grid = _grid(start, float(run.times[-1]), float(net.kappa(task)))
    R = np.asarray(manifold.R_V), np.asarray(manifold.R_1)
    states, slopes, rates, share = [], [], [], []
    until = np.inf
    for block in range(0, len(grid) - 1, BLOCK):
        part = grid[block : block + BLOCK + 1]
        G, sizes = _along(net, task, run, manifold, part)
        for i, t in enumerate(part):
            if i > 0:
                R = _advance(R, G[2 * i - 2 : 2 * i + 1], part[i] - part[i - 1])
            elif block > 0:
                continue
            states.append(R)
            slopes.append(_flow(G[2 * i], R))
            rates.append(float(np.linalg.norm(G[2 * i], 2)))
            share.append(float(np.linalg.norm(R[0] @ R[1]) / sizes[i]))
            if t > blow_up_time and share[-1] > TRUSTED_SHARE:
                until = _crossing(grid[len(states) - 2 : len(states)], share[-2:])
                break
        if np.isfinite(until):
            break
    times = grid[: len(states)]
    found = Trajectory(times, _stacked(states), Outcome.of("reached_end"), rates=_stacked(slopes))
    later = np.linalg.norm(_along(net, task, run, manifold, grid[-BLOCK - 1 :])[0], 2, axis=(1, 2))
    after = [r for t, r in zip(times, rates, strict=True) if t >= blow_up_time]
    rate = max([*after, *map(float, later)])
    return Transverse(rate, times, np.asarray(rates), np.asarray(share), until, found)


def _grid(start: float, end: float, kappa: float) -> np.ndarray:
    """Equally spaced times; a whole number of blocks, so that one compilation serves all."""
    wanted = min((end - start) * kappa / SPACING, POINTS)
    return np.linspace(start, end, BLOCK * max(1, int(np.ceil(wanted / BLOCK))) + 1)


def _along(
    net: Any, task: Any, run: Trajectory, manifold: Manifold, times: np.ndarray
) -> tuple[Any, np.ndarray]:
    """G at the times and in the middle between them; ‖p‖ ‖q‖ at the times."""
    fine = np.empty(2 * len(times) - 1)
    fine[::2], fine[1::2] = times, (times[:-1] + times[1:]) / 2
    states = run.evaluate(fine)
    sizes = np.linalg.norm(states.p, axis=1) * np.linalg.norm(states.q, axis=1)
    basis = np.asarray(manifold.span.basis)
    return basis @ np.asarray(_pulls(net, task, states)), sizes[::2]


def _stacked(pairs: list) -> tuple[np.ndarray, ...]:
    return tuple(np.stack(part) for part in zip(*pairs, strict=True))


def _flow(G: np.ndarray, R: tuple) -> tuple[np.ndarray, np.ndarray]:
    """(G R_1ᵀ, R_Vᵀ G)."""
    return G @ R[1].T, R[0].T @ G


def _advance(R: tuple, G: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """One classical Runge–Kutta step; G at its start, middle and end."""

    def ahead(step: float, k: tuple) -> tuple:
        return R[0] + step * k[0], R[1] + step * k[1]

    k1 = _flow(G[0], R)
    k2 = _flow(G[1], ahead(h / 2, k1))
    k3 = _flow(G[1], ahead(h / 2, k2))
    k4 = _flow(G[2], ahead(h, k3))
    total = tuple(a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
    return ahead(h / 6, total)


def _crossing(times: np.ndarray, share: list[float]) -> float:
    """Where the share reaches its bound between two rows, linear in its logarithm."""
    low, high = (float(np.log(max(s, 1e-300) / TRUSTED_SHARE)) for s in share)
    fraction = 0.0 if low >= 0 else low / (low - high)
    return float(times[0] + (times[1] - times[0]) * fraction)
