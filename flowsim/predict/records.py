"""Small operations on trajectories of the solves."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowsim.trajectory import Trajectory


def speeds(run: Trajectory) -> Trajectory:
    """The rates of a run as its states, to be evaluated between its rows."""
    return Trajectory(run.times, run.rates, run.outcome)


def chained(pieces: list[Trajectory]) -> Trajectory:
    """Runs that continue one another, as one; a row that two share is kept once."""
    firsts = [0] + [1] * (len(pieces) - 1)
    cut = lambda tree, first: jax.tree.map(lambda x: x[first:], tree)  # noqa: E731

    def joined(trees: list) -> Any:
        parts = [cut(tree, first) for tree, first in zip(trees, firsts, strict=True)]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)

    times = [np.asarray(piece.times)[first:] for piece, first in zip(pieces, firsts, strict=True)]
    return Trajectory(
        np.concatenate(times),
        joined([piece.states for piece in pieces]),
        pieces[-1].outcome,
        rates=joined([piece.rates for piece in pieces]),
    )


def total_stats(*runs: Trajectory) -> dict[str, Any]:
    """Steps and seconds of all runs together."""
    names = ("accepted", "rejected", "evaluations", "seconds", "compile_seconds")
    return {name: sum(run.stats[name] for run in runs) for name in names}
