"""A simulated run beside its prediction."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.flows import LeadingOrder
from flowsim.integrate import integrate
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.observables.norms import frobenius
from flowsim.predict import Prediction
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

#: Times at which errors are taken, spread like the rows of the run.
POINTS = 256
#: Relative error at which a theory counts as having departed from the run.
DEPARTURE = 0.1
#: The leading-order flow is followed to a distance of this many units 1/κ before T.
CLOSEST = 0.1


class EventComparison(eqx.Module):
    """One event, in training time; None where it did not happen."""

    predicted: float | None
    simulated: float | None
    #: predicted − simulated
    error: float | None
    #: |error| over T (for the blow-up) or over |predicted event − T| (for the onsets)
    relative_error: float | None


class PredictionComparison(eqx.Module):
    """Distances between a run and its prediction at common times.

    Attributes:
        blow_up, onset, onset_norm: predicted and simulated times (`escape` for the blow-up).
        times: common times, shape (256,).
        errors: name → error at these times: ‖ΔW‖/‖W‖ for `W_Q`, `W_K`, `W_V`, `W_1`, `W_2` (the
            same for weights divided by ε); |Δ‖W‖|/‖W‖ for `norm W_V`, `norm W_1`, `norm W_2`;
            `loss` is the difference of the losses over L(θ0) − L of the run.
        at_blow_up, at_onset, at_end: the errors there (at the last common time before it).
        trusted_until: what the prediction says of itself; infinite if to its end.
        largest_while_trusted: the largest error of each kind from T − 2/κ until then.
        departure: the first time after T − 2/κ at which W_2 or W_Q is off by ten percent; None if
            never.
        leading_order_departure: when W_2 of the leading-order flow is off by ten percent: where
            stage 1 ends.
    """

    blow_up: EventComparison
    onset: EventComparison
    onset_norm: EventComparison
    times: Float[np.ndarray, "T"]
    errors: dict[str, Float[np.ndarray, "T"]]
    at_blow_up: dict[str, float]
    at_onset: dict[str, float]
    at_end: dict[str, float]
    trusted_until: float
    largest_while_trusted: dict[str, float]
    departure: float | None
    leading_order_departure: float | None

    def as_dict(self) -> dict[str, Any]:
        """All but the curves, ready for JSON: None for what is infinite or unknown."""
        events = {
            name: {key: _plain(value) for key, value in vars(getattr(self, name)).items()}
            for name in ("blow_up", "onset", "onset_norm")
        }
        tables = {
            name: {key: _plain(value) for key, value in getattr(self, name).items()}
            for name in ("at_blow_up", "at_onset", "at_end", "largest_while_trusted")
        }
        times = {
            name: _plain(getattr(self, name))
            for name in ("trusted_until", "departure", "leading_order_departure")
        }
        return events | tables | times

    def __repr__(self) -> str:
        lines = [f"PredictionComparison({len(self.times)} times"]
        for name in ("blow_up", "onset", "onset_norm"):
            event = getattr(self, name)
            lines.append(
                f"  {name}: predicted {_shown(event.predicted)}, "
                f"simulated {_shown(event.simulated)}, error {_shown(event.relative_error)}"
            )
        for name in ("at_blow_up", "at_onset", "at_end"):
            errors = ", ".join(f"{k} {v:.1e}" for k, v in getattr(self, name).items())
            lines.append(f"  {name}: {errors}")
        for name in ("trusted_until", "departure", "leading_order_departure"):
            lines.append(f"  {name}: {_shown(getattr(self, name))}")
        return "\n".join(lines) + ")"


def compare_prediction(run: Trajectory, prediction: Prediction) -> PredictionComparison:
    """The run and the prediction at common times and events."""
    run, predicted = run.trim(), prediction.trajectory
    start = jax.tree.map(lambda x: x[0], run.states)
    _check(run, start, predicted)
    times = common_times(run, predicted)
    simulated, forecast = run.evaluate(times), predicted.evaluate(times)
    found = _errors(prediction.net, prediction.task, simulated, forecast, start)
    errors = {name: np.asarray(value) for name, value in found.items()}
    T = float(prediction.blow_up.time)
    unit = 1 / float(prediction.net.kappa(prediction.task))
    late = times >= T - 2 * unit
    trusted = late & (times <= prediction.trusted_until)
    worst = np.maximum(errors["W_2"], errors["W_Q"])
    onset = run.event_times.get("onset", math.inf)
    return PredictionComparison(
        blow_up=_event(T, run.event_times.get("escape"), T),
        onset=_onset(prediction.onset.time, run.event_times.get("onset"), T),
        onset_norm=_onset(prediction.onset_norm.time, run.event_times.get("onset_norm"), T),
        times=times,
        errors=errors,
        at_blow_up=_at(times, errors, T),
        at_onset=_at(times, errors, onset),
        at_end=_at(times, errors, times[-1]),
        trusted_until=prediction.trusted_until,
        largest_while_trusted={k: _largest(e, trusted) for k, e in errors.items()},
        departure=_first(times, late & (worst > DEPARTURE)),
        leading_order_departure=leading_order_departure(run, prediction),
    )


def common_times(run: Trajectory, predicted: Trajectory) -> Float[np.ndarray, "T"]:
    """`POINTS` times inside both records, as dense as the rows of the run."""
    rows = np.asarray(run.times, np.float64)
    low, high = predicted.times[0], predicted.times[-1]
    inside = np.unique(np.clip(rows, low, high))
    if not inside[0] < inside[-1]:
        raise checks.fail("run", "share a stretch of time with the prediction", run)
    return np.interp(np.linspace(0, 1, POINTS), np.linspace(0, 1, inside.size), inside)


@eqx.filter_jit
def _errors(
    net: OneLayerTransformer, task: Task, simulated: Any, predicted: Any, start: Parameters
) -> dict[str, Float[Array, "T"]]:
    start_loss = net.loss(start, task)

    def at(pair: tuple[Parameters, Parameters]) -> dict[str, Array]:
        run, other = pair
        found = {}
        for name in ("W_Q", "W_K", "W_V", "W_1", "W_2"):
            W, V = getattr(run, name), getattr(other, name)
            found[name] = _ratio(frobenius(V - W), frobenius(W))
        for name in ("W_V", "W_1", "W_2"):
            size = frobenius(getattr(run, name))
            found[f"norm {name}"] = _ratio(jnp.abs(frobenius(getattr(other, name)) - size), size)
        loss = net.loss(run, task)
        change = jnp.abs(net.loss(other, task) - loss)
        found["loss"] = _ratio(change, jnp.abs(start_loss - loss))
        return found

    return jax.lax.map(at, (simulated, predicted))


def _ratio(change: Array, size: Array) -> Array:
    """change/size; zero where nothing has changed."""
    return jnp.where(change == 0, 0, change / jnp.where(size > 0, size, jnp.inf))


def leading_order_departure(run: Trajectory, prediction: Prediction) -> float | None:
    """The first time at which W_2 of the leading-order flow is off by ten percent.

    None where the flow does not blow up, or stays closer than that up to T − 0.1/κ.
    """
    T, net, task = float(prediction.blow_up.time), prediction.net, prediction.task
    kappa = float(net.kappa(task))
    end = min(T - CLOSEST / kappa, float(run.times[-1]))
    if not (math.isfinite(T) and end > 0):
        return None
    start = jax.tree.map(lambda x: x[0], run.states)
    flow = LeadingOrder(task, kappa, net.direction(task))
    times = end * (1 - np.geomspace(1, 1e-3 * CLOSEST / (kappa * T), POINTS))
    times = np.append(times[times > 0], end)
    ahead = integrate(flow, start, end, rtol=1e-8).evaluate(times).W_2
    there = run.evaluate(times).W_2
    distance = np.linalg.norm(ahead - there, axis=1)
    return _first(times, distance > DEPARTURE * np.linalg.norm(there, axis=1))


def _check(run: Trajectory, start: Parameters, predicted: Trajectory) -> None:
    if run.clock != "training":
        raise checks.fail("run.clock", "be 'training'", run.clock)
    first = jax.tree.map(lambda x: x[0], predicted.states)
    if jax.tree.map(jnp.shape, first) != jax.tree.map(jnp.shape, start):
        raise checks.fail(
            "run", "have the shapes of the prediction", jax.tree.map(jnp.shape, start)
        )
    if run.times[0] == 0 and predicted.times[0] == 0:
        same = jax.tree.map(lambda a, b: bool(jnp.allclose(a, b, rtol=1e-6, atol=0)), first, start)
        if not all(jax.tree.leaves(same)):
            raise checks.fail("run", "have the start of the prediction", "another start")


def _event(predicted: float | None, simulated: float | None, unit: float) -> EventComparison:
    predicted = None if predicted is None or not math.isfinite(predicted) else float(predicted)
    if predicted is None or simulated is None:
        return EventComparison(predicted, simulated, None, None)
    error = predicted - simulated
    relative = abs(error / unit) if unit != 0 else None
    return EventComparison(predicted, simulated, error, relative)


def _onset(predicted: float | None, simulated: float | None, T: float) -> EventComparison:
    return _event(predicted, simulated, math.inf if predicted is None else predicted - T)


def _at(times: np.ndarray, errors: dict[str, np.ndarray], t: float) -> dict[str, float]:
    """Errors at time t, linear between the common times; nothing where t lies outside them."""
    if not times[0] <= t <= times[-1]:
        return {}
    return {name: float(np.interp(t, times, error)) for name, error in errors.items()}


def _largest(error: np.ndarray, chosen: np.ndarray) -> float:
    return float(np.max(error[chosen], initial=0.0))


def _first(times: np.ndarray, holds: np.ndarray) -> float | None:
    found = np.flatnonzero(holds)
    return float(times[found[0]]) if found.size else None


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
