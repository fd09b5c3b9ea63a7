"""Runs of the full model from many seeds at once, with their events and their predictions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flowsim import checks
from flowsim.blow_up import blow_up_time
from flowsim.flows.leading_order import outer
from flowsim.integrate import simulate
from flowsim.network import OneLayerTransformer, Parameters, gaussian_parameters
from flowsim.outcome import Outcome
from flowsim.tasks import Task

#: Members that are integrated side by side; all wait for the slowest of them.
BATCH = 16


class Runs(eqx.Module):
    """One entry a member; an event that did not happen is infinite. Training time."""

    predicted: Float[np.ndarray, " members"]  # T = T*/κ of the leading-order flow
    events: dict[str, Float[np.ndarray, " members"]]
    outcome: Int[np.ndarray, " members"]
    trusted: Bool[np.ndarray, " members"]
    end: Float[np.ndarray, " members"]
    loss: Float[np.ndarray, " members"]  # at the end

    def __len__(self) -> int:
        return self.predicted.size

    @property
    def relative_error(self) -> Float[np.ndarray, " members"]:
        """Of the simulated escape against the predicted T; infinite without an escape."""
        escape = self.events["escape"]
        happened = np.isfinite(escape) & np.isfinite(self.predicted)
        ratio = np.where(happened, escape, np.inf) / np.where(happened, self.predicted, 1.0)
        return np.abs(ratio - 1)


def two_stage_runs(
    net: OneLayerTransformer,
    task: Task,
    key: Array,
    count: int,
    *,
    scale: float,
    t1: float | None = None,
    rtol: float = 1e-8,
    max_steps: int = 100_000,
    batch: int = BATCH,
) -> Runs:
    """`simulate` from `count` Gaussian starts of size `scale`; member i uses fold_in(key, i).

    Args:
        t1, rtol, max_steps: as in `simulate`, the same for every member.
        batch: members integrated side by side.
    """
    checks.double_precision("two_stage_runs")
    count, batch = checks.integer("count", count), checks.integer("batch", batch)
    scale = checks.positive("scale", scale)
    batch = min(batch, count)
    found = []
    for first in range(0, count, batch):
        members = range(first, first + batch)
        starts = [
            gaussian_parameters(jax.random.fold_in(key, i), task.width, scale=scale)
            for i in members
        ]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
        ran = _batch(net, task, stacked, jnp.asarray(rtol), t1, max_steps)
        here = min(batch, count - first)
        found.append(_on_host(net, task, jax.device_get(ran), starts[:here]))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *found)


@eqx.filter_jit
def _batch(net, task, starts, rtol, t1, max_steps):
    """Events, outcome, trust, end and final loss of a batch."""

    def one(start):
        run = simulate(net, task, start, t1=t1, rtol=rtol, max_steps=max_steps)
        last = jnp.maximum(run.count - 1, 0)
        final = jax.tree.map(lambda x: x[last], run.states)
        ending = run.outcome.code, run.trusted, run.times[last], net.loss(final, task)
        return dict(run.event_times), *ending

    return jax.vmap(one)(starts)


def _on_host(net: OneLayerTransformer, task: Task, ran: Any, starts: list[Parameters]) -> Runs:
    """The runs of a batch, beside what the leading-order flow predicts for each."""
    events, code, trusted, end, loss = jax.tree.map(lambda x: x[: len(starts)], ran)
    direction, kappa = net.direction(task), float(net.kappa(task))
    times = [float(blow_up_time(*outer(start, direction)).time) for start in starts]
    return Runs(
        predicted=np.asarray(times) / kappa,
        events=events,
        outcome=code,
        trusted=trusted,
        end=end,
        loss=loss,
    )


def summarise_runs(runs: Runs, tolerance: float = 0.05, worst: int = 5) -> dict[str, Any]:
    """What happened, counted: outcomes, events, escapes within the tolerance, worst offenders.

    A member that never escaped, or whose run is not trusted, does not pass.
    """
    error = runs.relative_error
    passed = (error <= tolerance) & runs.trusted
    names = [Outcome(code).name for code in runs.outcome]
    order = np.lexsort((error, ~passed))[::-1]
    return {
        "count": len(runs),
        "outcomes": {name: names.count(name) for name in sorted(set(names))},
        "untrusted": int(np.sum(~runs.trusted)),
        "events": {name: _event(times) for name, times in runs.events.items()},
        "tolerance": tolerance,
        "passed": int(np.sum(passed)),
        "failed": int(np.sum(~passed)),
        "median_relative_error": float(np.median(error)),
        "worst": [_row(runs, names, int(i), bool(passed[i])) for i in order[:worst]],
    }


def _event(times: Float[np.ndarray, " members"]) -> dict[str, Any]:
    """How many members had the event, and its median time among those."""
    happened = times[np.isfinite(times)]
    median = float(np.median(happened)) if happened.size else None
    return {"happened": int(happened.size), "median": median}


def _row(runs: Runs, names: list[str], i: int, passed: bool) -> dict[str, Any]:
    """One member, for a table."""
    return {
        "member": i,
        "predicted": float(runs.predicted[i]),
        "simulated": float(runs.events["escape"][i]),
        "relative_error": float(runs.relative_error[i]),
        "outcome": names[i],
        "trusted": bool(runs.trusted[i]),
        "passed": passed,
    }
