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
from flowsim.integrate.simulate import STAGE_2_UNITS, standard_events
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.network.attention import context
from flowsim.observables.norms import frobenius
from flowsim.predict.manifold import Manifold
from flowsim.predict.match import Match
from flowsim.predict.onset import LONGEST, OnManifold, with_plateau_before_onset
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

#: The first try goes this many units 1/κ past T.
FIRST_HORIZON = 8.0
#: Scores of this size end the linear flow: far beyond where it has lost its meaning.
LARGEST_SCORE = 30.0


class Outer(eqx.Module):
    """p, q, r of the condensed network."""

    p: Float[Array, "*batch d"]
    q: Float[Array, "*batch m"]
    r: Float[Array, "*batch m"]


class OuterFlow(eqx.Module):
    """The condensed network at the attention of the start: O(n d + n m) a step.

    `contexts` are a_i X_i at W_Q(0), W_K(0), which differ from the mean tokens by O(ε²).
    """

    net: OneLayerTransformer
    contexts: Float[Array, "n d"]
    y: Float[Array, "n"]

    def loss(self, state: Outer) -> Float[Array, ""]:
        """(1/n) Σ_i ℓ(y_i Σ_k σ(z_i q_k) r_k), z_i = a_i X_i p."""
        outputs = self.net.activation(jnp.outer(self.contexts @ state.p, state.q)) @ state.r
        return jnp.mean(self.net.margin_loss(self.y * outputs))

    def rate(self, t: Any, state: Outer, args: Any = None) -> Outer:
        """−∇ of the loss."""
        return jax.grad(lambda state: -self.loss(state))(state)


class CubicPath(eqx.Module):
    """A piecewise cubic function of time, constant outside its nodes."""

    times: Float[Array, "T"]
    values: Float[Array, "T *shape"]
    slopes: Float[Array, "T *shape"]

    def __init__(self, times: Any, values: Any):
        from scipy.interpolate import CubicSpline

        slopes = CubicSpline(times, values, axis=0)(times, 1)
        self.times, self.values, self.slopes = map(jnp.asarray, (times, values, slopes))

    def __call__(self, t: Any) -> Array:
        """The value at time t."""
        i = jnp.clip(jnp.searchsorted(self.times, t, side="right") - 1, 0, self.times.size - 2)
        h = self.times[i + 1] - self.times[i]
        x = jnp.clip((t - self.times[i]) / h, 0, 1)
        first = self.values[i] * (1 + 2 * x) + self.slopes[i] * (h * x)
        second = self.values[i + 1] * (3 - 2 * x) + self.slopes[i + 1] * (h * (x - 1))
        return first * (1 - x) ** 2 + second * x**2


def condensed_key_query_matrix(
    net: OneLayerTransformer, task: Task, state: Outer | CondensedState, key_width: int
) -> Float[Array, "d d"]:
    """F of the condensed network itself, [CL 15] with σ in place of σ'(0).

    F = (1/(n s sqrt(k))) Σ_i −ℓ'(y_i f_i) y_i (Σ_k σ'(z_i q_k) q_k r_k) X_{i,s}ᵀ pᵀC_i at uniform
    attention, z_i = x̄_i·p. For σ(z) = σ'(0) z it is `key_query_matrix` at β = (q·r) p.
    """
    along = task.X @ state.p
    means = jnp.mean(along, axis=1)

    def gain(z: Float[Array, "n"]) -> Float[Array, ""]:
        outputs = net.activation(jnp.outer(z, state.q)) @ state.r
        return -jnp.mean(net.margin_loss(task.y * outputs))

    pull = jax.grad(gain)(means)
    mixed = jnp.einsum("ns,nsd->nd", along - means[:, None], task.X)
    return (task.last_tokens * pull[:, None]).T @ mixed / (task.length * key_width**0.5)


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


class OuterSpeed(eqx.Module):
    """A condition on full weights, asked of the outer ones alone."""

    asked: OnManifold
    W_Q: Float[Array, "d k"]
    W_K: Float[Array, "d k"]

    def __call__(self, t: Any, state: Outer, args: Any, rate: Outer) -> Array:
        """The condition with keys and queries that stand still."""
        still = jnp.zeros_like(self.W_Q), jnp.zeros_like(self.W_K)
        full = CondensedState(state.p, state.q, state.r, self.W_Q, self.W_K)
        return self.asked(t, full, args, CondensedState(rate.p, rate.q, rate.r, *still))


def separated_run(
    net: OneLayerTransformer,
    task: Task,
    theta0: Parameters,
    match: Match,
    blow_up_time: float,
    wanted: float,
    rtol: Any,
) -> Trajectory:
    """The same as `condensed_run` to first order in the attention."""
    unit = 1 / float(net.kappa(task))
    latest = LONGEST * blow_up_time
    end = max(min(blow_up_time + FIRST_HORIZON * unit, latest), wanted)
    while True:
        outer = _outer_run(net, task, theta0, match, end, rtol)
        keys = _keys_run(net, task, theta0, match, outer, rtol)
        onset = keys.event_times.get("onset", np.inf)
        due = min(onset + max(onset - blow_up_time, STAGE_2_UNITS * unit), latest)
        due = max(due, wanted)
        if due <= end or keys.outcome == "event":
            return _joined(outer, keys, min(due, float(keys.times[-1])))
        end = due


def _outer_run(
    net: Any, task: Any, theta0: Parameters, match: Match, end: float, rtol: Any
) -> Trajectory:
    plateau = standard_events(theta0)["plateau"]
    asked = OuterSpeed(
        OnManifold(plateau.condition, match.manifold), match.state.W_Q, match.state.W_K
    )
    attention = net.attention_weights(match.state.W_Q, match.state.W_K, task.X)
    flow = OuterFlow(net, context(task.X, attention), task.y)
    start = Outer(match.state.p, match.state.q, match.state.r)
    events = {"plateau": eqx.tree_at(lambda e: e.condition, plateau, asked)}
    return integrate(flow, start, end, t0=match.time, events=events, rtol=rtol)


@eqx.filter_jit
def _along(net: Any, task: Any, match: Match, pairs: Any, key_width: int) -> tuple[Array, Array]:
    """F and the log of the largest relative rate of the outer weights, at (state, rate) pairs."""

    def at(pair: tuple[Outer, Outer]) -> tuple[Array, Array]:
        state, rate = pair
        whole = CondensedState(state.p, state.q, state.r, match.state.W_Q, match.state.W_K)
        theta = match.manifold.weights(whole)
        pairs = (theta.W_V, rate.p), (theta.W_1, rate.q), (theta.W_2, rate.r)
        rates = jnp.stack([frobenius(dW) / frobenius(W) for W, dW in pairs])
        F = condensed_key_query_matrix(net, task, state, key_width)
        return F, jnp.log(jnp.maximum(jnp.max(rates), jnp.finfo(rates.dtype).tiny))

    return jax.lax.map(at, pairs)


def _keys_run(
    net: Any, task: Any, theta0: Parameters, match: Match, outer: Trajectory, rtol: Any
) -> Trajectory:
    """(W_Q, W_K) along the outer run, with the onsets."""
    rows = np.asarray(outer.times)
    nodes = np.interp(np.arange(0, len(rows) - 0.5, 0.5), np.arange(len(rows)), rows)
    speeds = Trajectory(rows, outer.rates, outer.outcome)
    pairs = outer.evaluate(nodes), speeds.evaluate(nodes)
    F, log_rates = _along(net, task, match, pairs, theta0.W_Q.shape[1])
    given, manifold = standard_events(theta0), match.manifold
    events = {
        "onset": Event(
            Crossover(CubicPath(nodes, np.asarray(log_rates)), manifold), with_rate=True
        ),
        "onset_norm": Event(QueryGrowth(given["onset_norm"].condition, manifold)),
        "largest": Event(ScoreSize(jnp.log(_largest_product(task, theta0))), terminal=True),
    }
    flow = KeyQuery(CubicPath(nodes, np.asarray(F)))
    start = match.state.W_Q, match.state.W_K
    return integrate(flow, start, rows[-1], t0=match.time, events=events, rtol=rtol)


def _largest_product(task: Task, theta0: Parameters) -> Array:
    """‖W_Q W_Kᵀ‖ that gives scores of `LARGEST_SCORE` to tokens of typical size."""
    queries = jnp.sqrt(jnp.mean(jnp.sum(task.last_tokens**2, axis=1)))
    tokens = jnp.sqrt(jnp.mean(jnp.sum(task.X**2, axis=2)))
    return LARGEST_SCORE * theta0.W_Q.shape[1] ** 0.5 / (queries * tokens)


def _joined(outer: Trajectory, keys: Trajectory, end: float) -> Trajectory:
    """One run of condensed states at the rows of both, up to `end`."""
    rows = np.union1d(np.asarray(outer.times), np.asarray(keys.times))
    rows = np.append(rows[rows < end], end)
    states, rates = (
        CondensedState(outer_part.p, outer_part.q, outer_part.r, W_Q=key_part[0], W_K=key_part[1])
        for outer_part, key_part in (
            (outer.evaluate(rows), keys.evaluate(rows)),
            (_speeds(outer).evaluate(rows), _speeds(keys).evaluate(rows)),
        )
    )
    found = {**outer.event_times, **keys.event_times}
    events = {name: t for name, t in found.items() if t <= end and name != "largest"}
    names = ("accepted", "rejected", "evaluations", "seconds", "compile_seconds")
    joined = Trajectory(
        rows,
        states,
        keys.outcome,
        rates=rates,
        event_times=dict(sorted(events.items(), key=lambda item: item[1])),
        crossings={name: {**outer.crossings, **keys.crossings}[name] for name in events},
        trusted=bool(outer.trusted and keys.trusted),
        stats={name: outer.stats[name] + keys.stats[name] for name in names},
    )
    return with_plateau_before_onset(joined)


def _speeds(run: Trajectory) -> Trajectory:
    """The rates of a run, to be evaluated between its rows."""
    return Trajectory(run.times, run.rates, run.outcome)
