"""The composite trajectory: the leading-order flow, then the condensed network."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim.network import Parameters
from flowsim.predict.match import Match
from flowsim.predict.records import speeds, total_stats
from flowsim.predict.transverse import Transverse
from flowsim.trajectory import Trajectory


def composite(
    stage_1: Trajectory,
    condensed: Trajectory,
    match: Match,
    transverse: Transverse,
    blow_up_time: float,
    times: np.ndarray | None,
) -> Trajectory:
    """Weights in training time, at the given times or at the steps of both solves.

    W_V, W_1, W_2 of the leading-order flow up to the switch, then W_V = p nᵀ + R_V,
    W_1 = n qᵀ + R_1 and W_2 = r; W_Q and W_K of the condensed flow from its start on.
    """
    rows = _rows(stage_1, condensed, match, times)
    parts = []
    if rows[0].size:
        early = _evaluate(stage_1, rows[0])
        parts.append(_with_attention(early, rows[0], condensed, match))
    if rows[1].size:
        parts.append(_embedded(*_evaluate(condensed, rows[1]), transverse.at(rows[1]), match))
    states, rates = (
        jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *side)
        for side in zip(*parts, strict=True)
    )
    events = {"escape": blow_up_time, **condensed.event_times}
    return Trajectory(
        np.concatenate(rows),
        states,
        condensed.outcome,
        rates=rates,
        event_times=dict(sorted(events.items(), key=lambda item: item[1])),
        crossings=condensed.crossings,
        trusted=bool(stage_1.trusted and condensed.trusted) and not condensed.outcome.failed,
        stats=total_stats(stage_1, condensed),
    )


def _rows(
    stage_1: Trajectory, condensed: Trajectory, match: Match, times: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Times of the first part and of the second."""
    if times is None:
        later = np.asarray(condensed.times)
        return np.asarray(stage_1.times), later[later > match.switch_time]
    return times[times <= match.switch_time], times[times > match.switch_time]


def _evaluate(run: Trajectory, times: np.ndarray) -> tuple[Any, Any]:
    """States and rates of a run at the times: its own rows where these are asked for."""
    own = np.asarray(run.times)
    rows = np.searchsorted(own, times)
    if np.array_equal(own[np.minimum(rows, len(own) - 1)], times):
        return jax.tree.map(lambda x: x[rows], (run.states, run.rates))
    return run.evaluate(times), speeds(run).evaluate(times)


def _with_attention(
    early: tuple[Any, Any], times: np.ndarray, condensed: Trajectory, match: Match
) -> tuple[Any, Any]:
    """Leading-order weights, with keys and queries of the condensed flow where it has started."""
    started = times > match.time
    if not np.any(started):
        return early
    states, rates = _evaluate(condensed, times[started])
    manifold = match.manifold
    late = jax.vmap(manifold.weights)(states), jax.vmap(manifold.rate)(rates)
    fields = lambda theta: (theta.W_Q, theta.W_K)  # noqa: E731
    states, rates = (
        eqx.tree_at(
            fields,
            theta,
            [W.at[started].set(new) for W, new in zip(fields(theta), fields(part), strict=True)],
        )
        for theta, part in zip(early, late, strict=True)
    )
    return states, rates


def _embedded(states: Any, rates: Any, remainders: Any, match: Match) -> tuple[Any, Any]:
    """Weights and their rates from condensed ones and from the remainders."""
    manifold = eqx.tree_at(lambda m: (m.R_V, m.R_1), match.manifold, replace_fn=jnp.zeros_like)
    (R_V, R_1), (R_V_rate, R_1_rate) = remainders
    theta, rate = jax.vmap(manifold.weights)(states), jax.vmap(manifold.rate)(rates)
    return _plus(theta, R_V, R_1), _plus(rate, R_V_rate, R_1_rate)


def _plus(theta: Parameters, R_V: Any, R_1: Any) -> Parameters:
    W_V, W_1 = theta.W_V + R_V, theta.W_1 + R_1
    return jax.tree.unflatten(
        jax.tree.structure(theta), [theta.W_Q, theta.W_K, W_V, W_1, theta.W_2]
    )
