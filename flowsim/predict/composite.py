"""The composite trajectory: the leading-order flow, then the condensed network."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowsim.predict.match import Match
from flowsim.predict.records import speeds, total_stats
from flowsim.predict.transverse import Transverse
from flowsim.trajectory import Trajectory

#: W_Q, W_K, W_V, W_1 and W_2 of states and of rates, time first.
Sides = tuple[list[np.ndarray], list[np.ndarray]]


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
    rows, parts = _rows(stage_1, condensed, match, times), []
    if rows[0].size:
        parts.append(_early(rows[0], stage_1, condensed, match))
    if rows[1].size:
        parts.append(_late(rows[1], condensed, transverse, match))
    structure = jax.tree.structure(stage_1.states)
    states, rates = (
        jax.tree.unflatten(
            structure, [jnp.asarray(np.concatenate(W)) for W in zip(*side, strict=True)]
        )
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
    """Times of the first part and of the second.

    The parts differ at the switch by (ε/ρ)² + ρ², which interpolation between rows that lie much
    closer than their neighbours would magnify: the second part begins a usual step behind it.
    """
    if times is None:
        later = np.asarray(condensed.times)
        later = later[later > match.switch_time]
        if later.size > 2 and later[0] - match.switch_time < (later[1] - later[0]) / 2:
            later = later[1:]
        return np.asarray(stage_1.times), later
    return times[times <= match.switch_time], times[times > match.switch_time]


def _early(times: np.ndarray, stage_1: Trajectory, condensed: Trajectory, match: Match) -> Sides:
    """Leading-order weights, with keys and queries of the condensed flow where it has started."""
    states, rates = ([np.array(W) for W in jax.tree.leaves(x)] for x in _at(stage_1, times))
    started = times > match.time
    if np.any(started):
        wholes = _whole(_at(condensed, times[started]), match)
        for leaves, (_, W_Q, W_K) in zip((states, rates), wholes, strict=True):
            leaves[0][started], leaves[1][started] = W_Q, W_K
    return states, rates


def _late(times: np.ndarray, condensed: Trajectory, transverse: Transverse, match: Match) -> Sides:
    """Weights and their rates from condensed ones and from the remainders."""
    n, found = np.asarray(match.manifold.n), _at(condensed, times)
    remainders = jax.tree.map(np.asarray, transverse.at(times))
    sides = zip(found, _whole(found, match), remainders, strict=True)
    states, rates = (
        [W_Q, W_K, p[:, :, None] * n + R_V, n[:, None] * side.q[:, None] + R_1, side.r]
        for side, (p, W_Q, W_K), (R_V, R_1) in sides
    )
    return states, rates


def _whole(found: tuple[Any, Any], match: Match) -> list[tuple]:
    """p, W_Q and W_K of condensed states and of rates, in the coordinates of the task."""
    basis, still = np.asarray(match.manifold.span.basis), match.manifold.still
    states, rates = ((side.p @ basis.T, basis @ side.W_Q, basis @ side.W_K) for side in found)
    rests = (np.asarray(W) for W in (still.p, still.W_Q, still.W_K))
    return [tuple(W + rest for W, rest in zip(states, rests, strict=True)), rates]


def _at(run: Trajectory, times: np.ndarray) -> tuple[Any, Any]:
    """States and rates of a run at the times: its own rows where these are asked for."""
    own = np.asarray(run.times)
    rows = np.searchsorted(own, times)
    if np.array_equal(own[np.minimum(rows, len(own) - 1)], times):
        return jax.tree.map(lambda x: np.asarray(x)[rows], (run.states, run.rates))
    found = run.evaluate(times), speeds(run).evaluate(times)
    return jax.tree.map(np.asarray, found)
