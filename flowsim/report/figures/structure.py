"""Ranks, condensation and its condition: the two stages as they show in directions."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from flowsim import observables
from flowsim.report.figures.curves import Values, draw, measured
from flowsim.trajectory import Trajectory

RANKED = ("W_Q", "W_K", "W_V", "W_1")
SHARE_LIMITS = (-0.04, 1.04)


def effective_ranks(
    run: Trajectory,
    *,
    ax: Any = None,
    blow_up_time: Any = None,
    predicted: Trajectory | None = None,
    values: Values | None = None,
    **panel: Any,
) -> Any:
    """Effective rank Σσ_i/σ_1 of each matrix (Figure 1c of the paper).

    Look for: W_V and W^[1] falling to 1 at T* (condensation), W_Q and W_K only after the onset of
    stage 2 (rank collapse). Arguments as for `loss`.
    """
    function = observables.effective_ranks
    second = None if predicted is None else observables.along(predicted, function)
    names = RANKED if all(hasattr(run.states, name) for name in RANKED) else None
    ax = draw(
        run, measured(run, function, values), ax=ax, blow_up_time=blow_up_time,
        predicted=predicted, predicted_values=second,
        **{"ylabel": r"effective rank $\Sigma_i\,\sigma_i/\sigma_1$", "title": "Effective ranks",
           "names": names} | panel,
    )  # fmt: skip
    ax.set_ylim(bottom=0)
    return ax


def condensation(
    run: Trajectory,
    direction: Any,
    *,
    value_direction: Any = None,
    hidden_direction: Any = None,
    query_direction: Any = None,
    key_direction: Any = None,
    ax: Any = None,
    blow_up_time: Any = None,
    predicted: Trajectory | None = None,
    values: Values | None = None,
    **panel: Any,
) -> Any:
    """Condensation rates: shares of neurons within |cos| ≥ 0.95 of their direction.

    Look for: columns of W_V reaching 1 (all of them along ±v) near T*, before stage 2 begins; the
    smaller ε, the longer they stay. Where that curve falls and the one along one line (their own
    top singular direction) stays, the columns turn away from v together. With the other directions:
    rows of W_V and columns of W^[1] along n, rows of W^[1] along m at T*, and columns of W_Q along
    u_1, of W_K along v_1 after the onset.

    Args:
        direction: v, as from `network.direction(task)`.
        value_direction, hidden_direction: n and m of theory.md, section 5.
        query_direction, key_direction: u_1 and v_1 of section 7.
    """
    function = condensation_function(
        direction, value_direction, hidden_direction, query_direction, key_direction
    )
    found = measured(run, function, values)
    second = None if predicted is None else observables.along(predicted, function)
    shown = [name for name in CONDENSATION_LABELS if name in found]
    ax = draw(
        run, found, ax=ax, blow_up_time=blow_up_time, predicted=predicted, predicted_values=second,
        **{"ylabel": r"share with $|\cos|\geq 0.95$", "title": "Condensation",
           "names": shown if shown else None, "labels": CONDENSATION_LABELS} | panel,
    )  # fmt: skip
    ax.set_ylim(*SHARE_LIMITS)
    return ax


OWN = "W_V columns to their own direction"
CONDENSATION_LABELS = {
    "W_V columns to v": r"columns of $W_V$ along $v$",
    OWN: r"columns of $W_V$ along one line",
    "W_V rows to n": r"rows of $W_V$ along $n$",
    "W_1 columns to n": r"columns of $W^{[1]}$ along $n$",
    "W_1 rows to m": r"rows of $W^{[1]}$ along $m$",
    "W_Q columns to u1": r"columns of $W_Q$ along $u_1$",
    "W_K columns to v1": r"columns of $W_K$ along $v_1$",
}


def condensation_function(
    v: Any, n: Any = None, m: Any = None, u1: Any = None, v1: Any = None
) -> Any:
    """State → the condensation rates that the figure draws."""
    return eqx.Partial(_condensation, v, n, m, u1, v1)


def condition_function(direction: Any) -> Any:
    """State → the shares of Assumption 1."""
    return eqx.Partial(_condition, direction)


def _condensation(*directions_and_state: Any) -> dict:
    *directions, theta = directions_and_state
    table = observables.condensation_of(theta, *directions)
    table[OWN] = observables.self_condensation(theta.W_V)
    return {name: rate for name, rate in table.items() if name in CONDENSATION_LABELS}


CONDITION_LABELS = {
    "A1": r"$A_1$",
    "A2": r"$A_2$",
    "A1 hidden": r"$A_1$, hidden $[m]$",
    "A1 value": r"$A_1$, value $[h]$",
    "A2 hidden": r"$A_2$, hidden $[m]$",
    "A2 value": r"$A_2$, value $[h]$",
}


def condensation_condition(
    run: Trajectory,
    direction: Any,
    *,
    ax: Any = None,
    blow_up_time: Any = None,
    predicted: Trajectory | None = None,
    values: Values | None = None,
    **panel: Any,
) -> Any:
    """Satisfaction of Assumption 1 (Figure 2a of the paper): A_1 and A_2, and their families.

    A_1: each hidden neuron's output weight and its input from W_V have one sign, and each value
    neuron likewise; A_2: any two neurons push in directions that form an acute angle
    (`observables.condensation_condition` has the formulas). Where both hold, all weights of the
    outer matrices grow until they blow up.

    Look for: about ½ for single families and ¼ for A_1, A_2 at the start (h = m), and 1 for all of
    them before T*. Arguments as for `condensation`.
    """
    function = condition_function(direction)
    found = measured(run, function, values)
    second = None if predicted is None else observables.along(predicted, function)
    shown = [name for name in CONDITION_LABELS if name in found]
    ax = draw(
        run, found, ax=ax, blow_up_time=blow_up_time, predicted=predicted, predicted_values=second,
        **{"ylabel": "share of indices that satisfy it", "title": "Condensation condition",
           "names": shown, "labels": CONDITION_LABELS} | panel,
    )  # fmt: skip
    ax.set_ylim(*SHARE_LIMITS)
    return ax


def _condition(v: Any, theta: Any) -> dict:
    return observables.condensation_condition(theta, v)


def singular_vector_stability(
    run: Trajectory, matrix: str = "W_Q", *, ax: Any = None, blow_up_time: Any = None, **panel: Any
) -> Any:
    """Mean |cos| between singular vectors at successive saved times (Figure 2b of the paper).

    Look for: 1 while the matrix stands still, dips where its singular vectors turn. The value
    depends on how far apart the saved times are: save them evenly.
    """
    run = run.trim()
    left, right = jax.device_get(observables.stability_along(getattr(run.states, matrix)))
    values = {"left": np.append(left, np.nan), "right": np.append(right, np.nan)}
    ax = draw(
        run, values, ax=ax, blow_up_time=blow_up_time,
        **{"ylabel": r"mean $|\cos|$ to the next state", "title": "Singular vectors",
           "labels": {"left": "left $u_i$", "right": "right $v_i$"}} | panel,
    )  # fmt: skip
    ax.set_ylim(*SHARE_LIMITS)
    return ax
