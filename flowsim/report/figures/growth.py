"""Loss, norms and change rates: the two stages as they show in sizes."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from flowsim import observables
from flowsim.observables.rates import ATTENTION, OUTER
from flowsim.report.canvas import legend_below
from flowsim.report.figures.curves import Values, draw, measured
from flowsim.report.style import DARK, figure_style
from flowsim.report.time_axis import TimeAxis
from flowsim.trajectory import Trajectory

CROSSING = "$W_Q, W_K$ overtake"
MATRICES = ("W_Q", "W_K", "W_V", "W_1", "W_2")


def loss(
    run: Trajectory,
    network: Any,
    task: Any,
    *,
    ax: Any = None,
    blow_up_time: Any = None,
    predicted: Trajectory | None = None,
    values: Values | None = None,
    **panel: Any,
) -> Any:
    """Loss L(θ(t)) [CL 3].

    Look for: no change until T*, a sudden fall there, a plateau if the task has one, and a second
    fall after the onset of stage 2.

    Args:
        run: the run to draw.
        network, task: `network.loss(theta, task)` is drawn.
        ax: where to draw; None makes a figure.
        blow_up_time: the predicted T* on the run's clock; the time axis is then t/T*.
        predicted: a run of the theory, drawn dashed black over the first.
        values: {"loss": (T,)} if known already, in place of computing it.
    """
    function = eqx.Partial(_loss, network, task)
    second = None if predicted is None else observables.along(predicted, function)
    return draw(
        run, measured(run, function, values), ax=ax, blow_up_time=blow_up_time,
        predicted=predicted, predicted_values=second,
        **{"ylabel": "loss $L$", "labels": {"loss": "simulated"}, "title": "Loss"} | panel,
    )  # fmt: skip


def _loss(network: Any, task: Any, theta: Any) -> dict:
    return {"loss": network.loss(theta, task)}


def norms(
    run: Trajectory,
    *,
    ax: Any = None,
    blow_up_time: Any = None,
    predicted: Trajectory | None = None,
    values: Values | None = None,
    **panel: Any,
) -> Any:
    """Frobenius norm of each matrix, on a logarithmic axis (Figure 2c of the paper).

    Look for: W_V, W^[1], W^[2] blowing up together at T* while W_Q and W_K keep their start values,
    then an exponential rise (a straight line) of W_Q and W_K. Arguments as for `loss`.
    """
    second = None if predicted is None else observables.along(predicted, observables.norms)
    return draw(
        run, measured(run, observables.norms, values), ax=ax, blow_up_time=blow_up_time,
        predicted=predicted, predicted_values=second, log=True,
        **{"ylabel": r"norm $\|W\|_F$", "title": "Norms", "names": _matrices(run)} | panel,
    )  # fmt: skip


def change_rates(
    run: Trajectory,
    *,
    ax: Any = None,
    blow_up_time: Any = None,
    predicted: Trajectory | None = None,
    values: Values | None = None,
    **panel: Any,
) -> Any:
    """Relative change rate ‖Ẇ‖_F/‖W‖_F of each matrix (Figure 1b of the paper; section 8).

    Look for: the circle, where the faster of W_Q, W_K overtakes the fastest of W_V, W^[1], W^[2]:
    the onset of stage 2. Rates of a run without saved rates are taken between its saved states.
    Arguments as for `loss`.
    """
    rates = _rates(run) if values is None else values
    second = None if predicted is None else _rates(predicted)
    unit = "step" if run.clock == "steps" else "unit time"
    ylabel = rf"$\|\dot W\|_F\,/\,\|W\|_F$ per {unit}"
    ax = draw(
        run, rates, ax=ax, blow_up_time=blow_up_time,
        predicted=predicted, predicted_values=second, log=True,
        **{"ylabel": ylabel, "title": "Relative change rates", "names": _matrices(run)} | panel,
    )  # fmt: skip
    crossing = rate_crossing(run, rates)
    if crossing is not None:
        with figure_style():
            position = TimeAxis.of(run, blow_up_time).positions(crossing[0])
            ax.plot(
                position, crossing[1], "o", markersize=7, fillstyle="none", color=DARK,
                markeredgewidth=0.9, zorder=5, gid="crossover", label=CROSSING,
            )  # fmt: skip
            if ax.get_legend() is not None:
                legend_below(ax)
    return ax


def rate_crossing(run: Trajectory, rates: Values) -> tuple[float, float] | None:
    """(time, rate) where the attention's rate first overtakes the outer one, by log-linear
    interpolation between saved times; None if it never does or a group is absent."""
    if not set(ATTENTION + OUTER) <= set(rates):
        return None
    groups = observables.group_rates({name: jnp.asarray(rates[name]) for name in rates})
    attention, outer = (
        np.log(np.maximum(np.asarray(group, dtype=float), 1e-300)) for group in groups
    )
    lead = attention - outer
    upward = np.flatnonzero((lead[:-1] < 0) & (lead[1:] >= 0))
    if upward.size == 0:
        return None
    k = int(upward[0])
    share = lead[k] / (lead[k] - lead[k + 1])
    times = np.asarray(run.times)
    time = times[k] + share * (times[k + 1] - times[k])
    return float(time), float(np.exp(attention[k] + share * (attention[k + 1] - attention[k])))


def _rates(run: Trajectory) -> Values:
    """From the saved rates, else (W_{k+1} − W_k)/(t_{k+1} − t_k) against W_k."""
    if run.rates is not None:
        return observables.along(run, observables.relative_rates, with_rates=True)
    run = run.trim()
    steps = np.diff(np.asarray(run.times))
    changes = observables.relative_changes(run.states)
    return {k: np.append(np.asarray(x) / steps, np.nan) for k, x in changes.items()}


def _matrices(run: Trajectory) -> tuple[str, ...] | None:
    """The paper's order for the paper's weights; any other state as it comes."""
    return MATRICES if all(hasattr(run.states, name) for name in MATRICES) else None
