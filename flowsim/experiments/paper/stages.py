"""The stages of a training run: when neurons condense, when attention sets out, what follows."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from flowsim.experiments.paper.training import Training, seen_along
from flowsim.network.decoder import Layer
from flowsim.observables import (
    along,
    condensation_condition,
    condensation_rate,
    norms,
)
from flowsim.observables.norms import scaled
from flowsim.observables.rates import relative_rates
from flowsim.report.figures import rate_crossing
from flowsim.report.style import symbol
from flowsim.trajectory import Trajectory

#: A set of neurons is condensed where this share of them is within |cos| ≥ 0.95 of one line.
SHARE = 0.95
#: ‖W_Q‖ has set out where it has grown by this factor (theory.md, section 8).
GROWTH = 2.0
#: Figures of stages 1 and 2 end at this multiple of the step of the collapse.
BEYOND = 1.25
#: Neurons of the outer matrices: those of W_V and of the hidden layer by what goes in and out.
NEURONS = ("W_V columns", "W_1 columns", "W_2 rows")
MATRICES = ("W_Q", "W_K", "W_V", "W_1", "W_2")
#: Matrices whose columns live in the space of tokens, as v does.
TO_V = ("W_V", "W_Q", "W_K")
#: The neurons of each matrix, as legends name them.
NEURONS_OF = {"W_V": "columns", "W_1": "columns", "W_2": "rows", "W_Q": "columns", "W_K": "columns"}
LABELS = {name: f"{vectors} of {symbol(name)}" for name, vectors in NEURONS_OF.items()}
EVENTS = ("condensed", "onset", "onset_norm")


@dataclasses.dataclass(frozen=True)
class Stages:
    """What is seen along a training run; times are steps, None for what did not happen.

    Attributes:
        condensed: from here on (to the rank minimum of W_Q) `NEURONS` are condensed.
        onset: the relative change of W_Q or W_K overtakes that of W_V, W_1 and W_2.
        onset_norm: ‖W_Q‖ has doubled.
        collapse: W_Q has its smallest effective rank.
        changes, condensation, ranks, norms: curves by name.
        run: the run with its events.
    """

    condensed: float | None
    onset: float | None
    onset_norm: float | None
    collapse: float
    changes: dict[str, np.ndarray]
    condensation: dict[str, np.ndarray]
    ranks: dict[str, np.ndarray]
    norms: dict[str, np.ndarray]
    run: Trajectory

    def early(self, end: float | None = None) -> "Stages":
        """Cut, a little after the collapse if no end is given: stages 1 and 2, for figures."""
        end = BEYOND * self.collapse if end is None else end
        rows = int(np.sum(np.asarray(self.run.times) <= end))
        rows = max(rows, min(len(self.run), 3))
        curves = ("changes", "condensation", "ranks", "norms")
        cut: dict[str, Any] = {
            c: {k: x[:rows] for k, x in getattr(self, c).items()} for c in curves
        }
        run = Trajectory(
            self.run.times[:rows],
            jax.tree.map(lambda W: W[:rows], self.run.states),
            self.run.outcome,
            event_times=self.run.event_times,
            clock="steps",
        )
        return dataclasses.replace(self, run=run, **cut)

    def before(self, when: float | None) -> np.ndarray:
        """Which moments lie before a time."""
        return np.asarray(self.run.times) < (np.inf if when is None else when)


def stages(training: Training) -> Stages:
    """Stages and curves of a training run."""
    run, times = training.run, np.asarray(training.run.times)
    changes = step_changes(training)
    (rates, ranks), sizes = structure(training), along(run, norms)
    crossing = rate_crossing(run, changes)
    least = np.min([rates[name] for name in NEURONS], axis=0)
    collapse = float(times[np.argmin(ranks["W_Q"])])
    found = {
        "condensed": settled(times, least >= SHARE, collapse),
        "onset": None if crossing is None else crossing[0],
        "onset_norm": first(times, sizes["W_Q"] >= GROWTH * sizes["W_Q"][0]),
    }
    events = {name: time for name, time in found.items() if time is not None}
    marked = Trajectory(
        times, run.states, run.outcome, event_times=events, stats=run.stats, clock="steps"
    )
    return Stages(
        **found,
        collapse=collapse,
        changes=changes,
        condensation=rates,
        ranks=ranks,
        norms=sizes,
        run=marked,
    )


def by_matrix(seen: Stages) -> dict[str, np.ndarray]:
    """Condensation rates of the neurons of each matrix, under the matrix's name."""
    return {name: seen.condensation[f"{name} {vectors}"] for name, vectors in NEURONS_OF.items()}


def earlier(one: float | None, other: float | None) -> bool:
    """Whether one time came, and before the other."""
    return one is not None and one < (np.inf if other is None else other)


def first(times: np.ndarray, holds: np.ndarray) -> float | None:
    """The first time at which something holds."""
    where = np.flatnonzero(holds)
    return float(times[where[0]]) if where.size else None


def with_steps(moments: dict[str, float | None]) -> dict[str, float | None]:
    """Moments whose names say at which step they came."""
    return {
        name if time is None else f"{name} (step {time:g})": time for name, time in moments.items()
    }


def settled(times: np.ndarray, holds: np.ndarray, until: float) -> float | None:
    """The first time from which on something holds until another time."""
    inside = times <= until
    broken = np.flatnonzero(~holds[inside])
    after = 0 if broken.size == 0 else broken[-1] + 1
    return float(times[inside][after]) if after < inside.sum() else None


def step_changes(training: Training) -> dict[str, np.ndarray]:
    """‖W_{k+1} − W_k‖_F/‖W_k‖_F of single steps, at the moments."""
    states = training.run.states
    moved = jax.tree.map(lambda after, W: after - W, training.following, states)
    run = Trajectory(training.run.times, states, training.run.outcome, rates=moved, clock="steps")
    return along(run, relative_rates, with_rates=True)


def structure(training: Training) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(condensation rates, effective ranks) along the run.

    Rates are those of columns and rows against the matrix's own line, and of columns against v.
    One matrix at a time: those of one shape share their compiled code.
    """
    rates: dict[str, np.ndarray] = {}
    ranks: dict[str, np.ndarray] = {}
    for name in MATRICES:
        run = Trajectory(
            training.run.times, getattr(training.run.states, name), training.run.outcome
        )
        found = along(run, of_matrix)
        ranks[name] = found.pop("rank")
        rates |= {f"{name} {vectors}": rate for vectors, rate in found.items()}
        if name in TO_V:
            rates[f"{name} columns to v"] = along(run, eqx.Partial(_to, training.v))
    return rates, ranks


def of_matrix(W: Array) -> dict[str, Array]:
    """Effective rank, and the rates of columns and rows against the top singular directions."""
    left, values, right = jnp.linalg.svd(scaled(W)[0], full_matrices=False)
    return {
        "rank": jnp.sum(values) / values[0],
        "columns": condensation_rate(W, left[:, 0], "columns"),
        "rows": condensation_rate(W, right[0], "rows"),
    }


def _to(v: Array, W: Array) -> Array:
    return condensation_rate(W, v)


def condition(training: Training) -> dict[str, np.ndarray]:
    """Shares of Assumption 1 along the run, seen along the signal v ⊗ o."""
    return along(training.run, eqx.Partial(_condition, training.v, training.o))


def _condition(v: Array, o: Array, layer: Layer) -> Any:
    return condensation_condition(seen_along(o, layer), v)
