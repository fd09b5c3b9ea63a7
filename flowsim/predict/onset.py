"""The condensed flow from the match through stage 2, with the events of a simulation."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from flowsim.flows import Condensed
from flowsim.integrate import Event, solve
from flowsim.integrate.simulate import STAGE_2_UNITS, standard_events
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.predict.manifold import OnManifold
from flowsim.predict.match import Match
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

#: A run ends at this multiple of T at the latest, as a simulation does.
LONGEST = 10.0


class PredictedEnd(eqx.Module):
    """The end of a simulation, with T known in advance: onset + (onset − T), at least a few units
    1/κ after the onset, at most 10 T; not before the last time that is asked for."""

    onset_index: int = eqx.field(static=True)
    blow_up: Array
    least: Array
    wanted: Array

    def __call__(self, first: Array) -> Array:
        """The end time, given the first time of each event."""
        onset = first[self.onset_index]
        after = onset + jnp.maximum(onset - self.blow_up, self.least)
        return jnp.maximum(jnp.minimum(LONGEST * self.blow_up, after), self.wanted)


def condensed_events(theta0: Parameters, match: Match) -> dict[str, Event]:
    """`onset`, `onset_norm` and `plateau` in the definitions of `simulate`, on condensed states."""
    chosen = {k: e for k, e in standard_events(theta0).items() if k != "escape"}
    return {
        name: eqx.tree_at(lambda e: e.condition, event, OnManifold(event.condition, match.manifold))
        for name, event in chosen.items()
    }


def condensed_run(
    net: OneLayerTransformer,
    task: Task,
    theta0: Parameters,
    match: Match,
    blow_up_time: float,
    wanted: float,
    rtol: Any,
) -> Trajectory:
    """States of the condensed flow from the match to the end, with event times."""
    events = condensed_events(theta0, match)
    end = predicted_end(sorted(events).index("onset"), net, task, blow_up_time, wanted)
    start = jnp.asarray(match.time, jnp.float64)
    flow = Condensed(net, task)
    run = solve.run(flow, match.state, start, end, events=events, rtol=rtol)
    return with_plateau_before_onset(run)


def predicted_end(
    onset_index: int, net: OneLayerTransformer, task: Task, blow_up_time: float, wanted: float
) -> PredictedEnd:
    """`PredictedEnd` with its numbers as data, so that a new start does not compile again."""
    numbers = (blow_up_time, STAGE_2_UNITS / float(net.kappa(task)), wanted)
    return PredictedEnd(onset_index, *(jnp.asarray(x, jnp.float64) for x in numbers))


def with_plateau_before_onset(run: Trajectory) -> Trajectory:
    """Without the event `plateau` where it comes after the onset, as in `simulate`."""
    events, crossings = dict(run.event_times), dict(run.crossings)
    if events.get("plateau", 0.0) > events.get("onset", float("inf")):
        del events["plateau"], crossings["plateau"]
    return eqx.tree_at(
        lambda r: (r.event_times, r.crossings),
        run,
        (events, crossings),
        is_leaf=lambda x: isinstance(x, dict),
    )
