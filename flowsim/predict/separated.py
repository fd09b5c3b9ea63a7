"""The separated prediction: outer weights at fixed attention, then keys and queries (section 7).

Dynamics separation  [CL, Assumption 2, Proposition 3]: while keys and queries are small the outer
weights p, q, r move as if attention stood still, which takes O(n d + n m) a step, and W_Q, W_K
follow the linear flow Ẇ_Q = F W_K, Ẇ_K = Fᵀ W_Q with F(t) along them. That is the prediction to
first order in the attention; it departs from the network where stage 2 saturates.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.flows import CondensedState, KeyQuery
from flowsim.integrate import Event, integrate
from flowsim.integrate.simulate import PLATEAU_FRACTION, STAGE_2_UNITS, standard_events
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.network.attention import context
from flowsim.observables.norms import frobenius
from flowsim.predict.forcing import (
    CubicPath,
    OuterState,
    condensed_key_query_matrix,
    halved,
)
from flowsim.predict.manifold import Manifold
from flowsim.predict.match import Match
from flowsim.predict.onset import LONGEST, with_plateau_before_onset
from flowsim.predict.records import chained, speeds, total_stats
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

#: The first piece goes this many units 1/κ past T.
FIRST_PIECE = 4.0
#: Times at which F is computed at once.
CHUNK = 32
#: Scores of this size end the linear flow: far beyond where it has lost its meaning.
LARGEST_SCORE = 30.0


class OuterFlow(eqx.Module):
    """The condensed network at the attention of the start: O(n d + n m) a step.

    `contexts` are a_i X_i at W_Q(0), W_K(0), which differ from the mean tokens by O(ε²).
    """

    net: OneLayerTransformer
    contexts: Float[Array, "n d"]
    y: Float[Array, "n"]

    def loss(self, state: OuterState) -> Float[Array, ""]:
        """(1/n) Σ_i ℓ(y_i Σ_k σ(z_i q_k) r_k), z_i = a_i X_i p."""
        outputs = self.net.activation(jnp.outer(self.contexts @ state.p, state.q)) @ state.r
        return jnp.mean(self.net.margin_loss(self.y * outputs))

    def rate(self, t: Any, state: OuterState, args: Any = None) -> OuterState:
        """−∇ of the loss."""
        return jax.grad(lambda state: -self.loss(state))(state)


def _with_keys(manifold: Manifold, keys: tuple[Array, Array]) -> Parameters:
    """Full weights at keys and queries, with p = q = r = 0."""
    d, m = manifold.span.basis.shape[1], manifold.R_1.shape[1]
    zero = jnp.zeros_like(manifold.R_1, shape=(d,)), jnp.zeros_like(manifold.R_1, shape=(m,))
    return manifold.weights(CondensedState(zero[0], zero[1], zero[1], *keys))


class Crossover(eqx.Module):
    """Log ratio of the relative rates of keys or queries and of the outer weights."""

    outer: CubicPath
    manifold: Manifold

    def __call__(self, t: Any, state: Any, args: Any, rate: Any) -> Array:
        """The condition of the event `onset`."""
        whole = _with_keys(self.manifold, state)
        pairs = (whole.W_Q, rate[0]), (whole.W_K, rate[1])
        rates = [frobenius(dW) / frobenius(W) for W, dW in pairs]
        tiny = jnp.finfo(rates[0].dtype).tiny
        return jnp.log(jnp.maximum(jnp.maximum(*rates), tiny)) - self.outer(t)


class QueryGrowth(eqx.Module):
    """`onset_norm` asked of (W_Q, W_K)."""

    growth: Callable
    manifold: Manifold

    def __call__(self, t: Any, state: Any, args: Any) -> Array:
        """The condition of `onset_norm`."""
        return self.growth(t, _with_keys(self.manifold, state), args)


class ScoreSize(eqx.Module):
    """log of ‖W_Q W_Kᵀ‖ over a level."""

    log_level: Array

    def __call__(self, t: Any, state: Any, args: Any) -> Array:
        """Zero where scores are as large as they may be."""
        return jnp.log(frobenius(state[0] @ state[1].T)) - self.log_level


def separated_run(
    net: OneLayerTransformer,
    task: Task,
    theta0: Parameters,
    match: Match,
    blow_up_time: float,
    wanted: float,
    rtol: Any,
) -> Trajectory:
    """The same as `condensed_run` to first order in the attention.

    The end is not known before the onset, so it goes piece by piece, each twice as long.
    """
    unit = 1 / float(net.kappa(task))
    latest = max(LONGEST * blow_up_time, wanted)
    outer: list[Trajectory] = []
    keys: list[Trajectory] = []
    reach, end, onset = FIRST_PIECE * unit, latest, np.inf
    while not keys or float(keys[-1].times[-1]) < end:
        due = end if np.isfinite(onset) else min(blow_up_time + reach, end)
        outer.append(_outer_piece(net, task, match, outer, due, rtol))
        keys.append(_keys_piece(net, task, theta0, match, outer[-1], keys, rtol))
        onset = _first_time(keys, "onset")
        after = onset + max(onset - blow_up_time, STAGE_2_UNITS * unit)
        end = max(min(latest, after), wanted)
        reach *= 2
        if keys[-1].outcome == "event" or keys[-1].outcome.failed or outer[-1].outcome.failed:
            end = float(keys[-1].times[-1])
    return _joined(outer, keys, end)


def _outer_piece(
    net: Any, task: Any, match: Match, before: list[Trajectory], end: float, rtol: Any
) -> Trajectory:
    attention = net.attention_weights(match.state.W_Q, match.state.W_K, task.X)
    flow = OuterFlow(net, context(task.X, attention), task.y)
    start, t0 = OuterState(match.state.p, match.state.q, match.state.r), match.time
    if before:
        start, t0 = before[-1].final, float(before[-1].times[-1])
    return integrate(flow, start, end, t0=t0, rtol=rtol)


@eqx.filter_jit
def _along(net: Any, task: Any, match: Match, pairs: Any, key_width: int) -> tuple[Array, Array]:
    """F and the log of the largest relative rate of the outer weights, at (state, rate) pairs."""

    def at(pair: tuple[OuterState, OuterState]) -> tuple[Array, Array]:
        state, rate = pair
        whole = CondensedState(state.p, state.q, state.r, match.state.W_Q, match.state.W_K)
        theta = match.manifold.weights(whole)
        moves = (theta.W_V, rate.p), (theta.W_1, rate.q), (theta.W_2, rate.r)
        rates = jnp.stack([frobenius(dW) / frobenius(W) for W, dW in moves])
        F = condensed_key_query_matrix(net, task, state, key_width)
        return F, jnp.log(jnp.maximum(jnp.max(rates), jnp.finfo(rates.dtype).tiny))

    return jax.lax.map(at, pairs)


def _paths(
    net: Any, task: Any, match: Match, outer: Trajectory, key_width: int
) -> tuple[CubicPath, CubicPath]:
    """F and the log rate along a piece, through its rows and one time between two of them."""
    nodes = halved(np.asarray(outer.times))
    padded = np.append(nodes, np.full(-len(nodes) % CHUNK, nodes[-1]))
    pairs = outer.evaluate(padded), speeds(outer).evaluate(padded)
    found = [
        _along(net, task, match, jax.tree.map(lambda x: x[i : i + CHUNK], pairs), key_width)  # noqa: B023
        for i in range(0, len(padded), CHUNK)
    ]
    F, log_rates = (np.concatenate(part)[: len(nodes)] for part in zip(*found, strict=True))
    return CubicPath(nodes, F), CubicPath(nodes, log_rates)


def _keys_piece(
    net: Any,
    task: Any,
    theta0: Parameters,
    match: Match,
    outer: Trajectory,
    before: list[Trajectory],
    rtol: Any,
) -> Trajectory:
    """(W_Q, W_K) along a piece of the outer run, with the onsets."""
    F, log_rates = _paths(net, task, match, outer, theta0.W_Q.shape[1])
    given, manifold = standard_events(theta0), match.manifold
    events = {
        "onset": Event(Crossover(log_rates, manifold), with_rate=True),
        "onset_norm": Event(QueryGrowth(given["onset_norm"].condition, manifold)),
        "largest": Event(ScoreSize(jnp.log(_largest_product(task, theta0))), terminal=True),
    }
    start = before[-1].final if before else (match.state.W_Q, match.state.W_K)
    t0, t1 = outer.times[0], outer.times[-1]
    return integrate(KeyQuery(F), start, t1, t0=t0, events=events, rtol=rtol, solver="dopri5")


def _largest_product(task: Task, theta0: Parameters) -> Array:
    """‖W_Q W_Kᵀ‖ that gives scores of `LARGEST_SCORE` to tokens of typical size."""
    queries = jnp.sqrt(jnp.mean(jnp.sum(task.last_tokens**2, axis=1)))
    tokens = jnp.sqrt(jnp.mean(jnp.sum(task.X**2, axis=2)))
    return LARGEST_SCORE * theta0.W_Q.shape[1] ** 0.5 / (queries * tokens)


def _first_time(pieces: list[Trajectory], name: str) -> float:
    return min(piece.event_times.get(name, np.inf) for piece in pieces)


def _joined(outer: list[Trajectory], keys: list[Trajectory], end: float) -> Trajectory:
    """One run of condensed states at the rows of both parts, up to `end`."""
    wholes = chained(outer), chained(keys)
    rows = np.union1d(*(whole.times for whole in wholes))
    rows = np.append(rows[rows < end], end)
    states, rates = (
        CondensedState(first.p, first.q, first.r, W_Q=second[0], W_K=second[1])
        for first, second in (
            [whole.evaluate(rows) for whole in wholes],
            [speeds(whole).evaluate(rows) for whole in wholes],
        )
    )
    events = {name: _first_time(keys, name) for name in ("onset", "onset_norm")}
    events["plateau"] = plateau_time(wholes[0])
    events = {name: t for name, t in events.items() if t <= end}
    joined = Trajectory(
        rows,
        states,
        keys[-1].outcome,
        rates=rates,
        event_times=dict(sorted(events.items(), key=lambda item: item[1])),
        crossings={name: np.asarray([t]) for name, t in events.items()},
        stats=total_stats(*outer, *keys),
    )
    return with_plateau_before_onset(joined)


def plateau_time(outer: Trajectory) -> float:
    """When the speed of the outer weights has fallen to a twentieth of its largest value so far
    (`plateau` of a simulation); infinite where it does not."""
    size = lambda rate: np.sqrt(sum(np.sum(np.square(x), -1) for x in jax.tree.leaves(rate)))  # noqa: E731
    fractions = size(outer.rates) / np.maximum.accumulate(size(outer.rates))
    below = np.flatnonzero(fractions <= PLATEAU_FRACTION)
    if below.size == 0:
        return np.inf
    i = int(below[0])
    fine = np.linspace(outer.times[i - 1], outer.times[i], 65)
    level = PLATEAU_FRACTION * np.max(size(outer.rates)[: i + 1])
    log_excess = np.log(size(speeds(outer).evaluate(fine)) / level)
    return float(np.interp(0.0, -log_excess, fine))
