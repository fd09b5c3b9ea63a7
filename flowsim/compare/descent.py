"""A discrete descent beside the flow of the same start (theory.md, section 9)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from flowsim import checks
from flowsim.compare import lag
from flowsim.compare.escape import (
    LEVELS,
    escape_level,
    log_size_rate,
    reaching_times,
    size,
    whole_norm,
)
from flowsim.network import Parameters
from flowsim.observables import along
from flowsim.outcome import Outcome
from flowsim.trajectory import Trajectory

#: A descent that ended before this many rows were saved has no delay that could be read off it.
FEWEST = 4


class DescentComparison(eqx.Module):
    """How far a descent is from the flow, and how much later it escapes.

    Attributes:
        times: the saved times of the descent that lie within the run.
        parameter_distance: ‖θ_descent − θ_flow‖/‖θ_flow‖ at equal times.
        function_distance: the same of the outputs f(X_i); None where the network is not known.
        loss_gap: L(θ_descent) − L(θ_flow); None where the network is not known.
        level: size ‖W_2‖ (or of the state) that counts as the escape; None without growth.
        lag_at_blow_up: by how much later the descent reaches the level.
        delay: the time shift that lays the growth of the descent on that of the flow best, from
            the start to the level: the mean of the shifts at equally spaced logarithms of the size.
        predicted_lag, predicted_delay: the same by the lag law, to first order in η: of the
            leading-order flow from the same start where network and task are known, otherwise of a
            flow that grows without turning; None where neither applies.
    """

    times: Float[np.ndarray, "T"]
    parameter_distance: Float[np.ndarray, "T"]
    function_distance: Float[np.ndarray, "T"] | None
    loss_gap: Float[np.ndarray, "T"] | None
    level: float | None
    lag_at_blow_up: float | None
    delay: float | None
    predicted_lag: float | None
    predicted_delay: float | None

    def as_dict(self) -> dict[str, Any]:
        """Lists and numbers, ready for JSON."""
        values = {name: getattr(self, name) for name in type(self).__dataclass_fields__}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    def __repr__(self) -> str:
        shown = lambda x: "none" if x is None else f"{x:.4g}"  # noqa: E731
        largest = float(np.max(self.parameter_distance))
        parts = [f"{self.times.size} times", f"largest parameter distance {largest:.4g}"]
        if self.loss_gap is not None:
            parts.append(f"largest loss gap {np.max(np.abs(self.loss_gap)):.4g}")
        parts.append(f"delay {shown(self.delay)} (predicted {shown(self.predicted_delay)})")
        lag = f"lag at blow-up {shown(self.lag_at_blow_up)}"
        parts.append(f"{lag} (predicted {shown(self.predicted_lag)})")
        return f"DescentComparison({', '.join(parts)})"


def compare_descent(
    run: Trajectory, descent: Trajectory, *, net: Any = None, task: Any = None
) -> DescentComparison:
    """Distances at equal times and delays at equal sizes.

    Args:
        run: the flow, with the rates that `integrate` and `simulate` save.
        descent: from `train` or `descend`, on the training clock.
        net, task: where outputs and losses are taken; known already for a descent from `train`.

    Raises:
        ValueError: clocks that are not training time, states of another shape, no common time.
    """
    run, origin = run.trim(), getattr(descent, "origin", None)
    net = origin.net if net is None and origin is not None else net
    task = origin.task if task is None and origin is not None else task
    stats, descent = dict(descent.stats), descent.trim()
    _check(run, descent)
    times = np.asarray(descent.times, dtype=np.float64)
    rows = np.flatnonzero((times >= float(run.times[0])) & (times <= float(run.times[-1])))
    if rows.size == 0:
        raise checks.fail("descent", "have saved times within the run", descent)
    discrete = jax.tree.map(lambda x: jnp.asarray(x[rows]), descent.states)
    flow = run.evaluate(times[rows])
    difference = jax.tree.map(lambda a, b: a - b, discrete, flow)
    function_distance, loss_gap = _in_function_space(times[rows], discrete, flow, net, task)
    return DescentComparison(
        times=times[rows],
        parameter_distance=_ratio(whole_norm(difference), whole_norm(flow)),
        function_distance=function_distance,
        loss_gap=loss_gap,
        **delays(run, descent, stats, net, task),
    )


def _check(run: Trajectory, descent: Trajectory) -> None:
    for name, record in (("run", run), ("descent", descent)):
        if record.clock != "training":
            rule = "be on the training clock (an optimiser without one cannot be compared in time)"
            raise checks.fail(name, rule, record.clock)
    shapes = [jax.tree.map(lambda x: np.shape(x)[1:], r.states) for r in (run, descent)]
    if shapes[0] != shapes[1]:
        raise checks.fail("descent", f"have states shaped like the run's, {shapes[0]}", shapes[1])


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a/b where b is not zero; 0/0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a == 0, 0.0, a / b)


def _outputs_and_loss(net: Any, task: Any, theta: Any) -> tuple[Any, Any]:
    return net(theta, task.X), net.loss(theta, task)


def _in_function_space(times: Any, discrete: Any, flow: Any, net: Any, task: Any) -> Any:
    """Function distance and loss gap, or None twice."""
    if net is None or task is None:
        return None, None
    function = eqx.Partial(_outputs_and_loss, net, task)
    ended = Outcome.of("reached_end")
    first, second = (along(Trajectory(times, s, ended), function) for s in (discrete, flow))
    outputs = first[0].astype(np.float64), second[0].astype(np.float64)
    distance = _ratio(whole_norm(outputs[0] - outputs[1]), whole_norm(outputs[1]))
    return distance, np.asarray(first[1] - second[1], dtype=np.float64)


def delays(
    run: Trajectory, descent: Trajectory, stats: dict[str, Any], net: Any, task: Any
) -> dict[str, Any]:
    """Level, lag and delay, measured and predicted; None where there is no growth, or where
    descent diverged within its first steps."""
    sizes = size(run), size(descent)
    level = escape_level(run, *sizes)
    names = ("lag_at_blow_up", "delay", "predicted_lag", "predicted_delay")
    if level is None or len(descent) < FEWEST:
        return {"level": None} | dict.fromkeys(names)
    levels = np.geomspace(max(sizes[0][0], sizes[1][0]), level, LEVELS)[1:]
    clocks = [np.asarray(r.times, dtype=np.float64) for r in (run, descent)]
    at = reaching_times(clocks[0], sizes[0], levels, log_size_rate(run))
    lags = reaching_times(clocks[1], sizes[1], levels) - at
    predicted = predicted_lags(run, at, levels, stats, net, task)
    both = [None, None] if predicted is None else [float(predicted[-1]), float(predicted.mean())]
    values = [float(lags[-1]), float(lags.mean()), *both]
    return {"level": level} | dict(zip(names, values, strict=True))


def predicted_lags(
    run: Trajectory,
    at: Float[np.ndarray, "L"],
    levels: Float[np.ndarray, "L"],
    stats: dict[str, Any],
    net: Any,
    task: Any,
) -> Float[np.ndarray, "L"] | None:
    """The lag law, to first order in η, at each level; None where it does not apply."""
    step = lag.step_of(stats)
    if step is None:
        return None
    h, beta = step
    if isinstance(run.states, Parameters) and net is not None and task is not None:
        theta0 = jax.tree.map(lambda x: jnp.asarray(x[0]), run.states)
        patience = lag.PATIENCE * float(at[-1])
        found = lag.lags_of_stage_1(net, task, theta0, levels, patience, beta)
    else:
        found = lag.lags_of_growth(run, at, beta)
    return None if found is None else h * found
