"""Figure 2 of [CL]: Assumption 1, singular-vector stability and norms along the training."""

from typing import Any

import numpy as np

from flowsim.experiments.paper.finding import Claim, Finding, claim, together
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.stages import EVENTS, MATRICES, Stages, condition, settled
from flowsim.observables import stability_along
from flowsim.report import figures
from flowsim.report.canvas import new_figure
from flowsim.report.style import TWO_COLUMNS, figure_style, symbol

#: A family of Assumption 1 is satisfied where this share of its indices is.
SATISFIED = 0.99
FAMILIES = ("A1 hidden", "A1 value", "A2 hidden", "A2 value")


def satisfaction(lab: Laboratory) -> Finding:
    """Figure 2a: shares of Assumption 1, each family apart (their index sets differ in size)."""
    seen, shares = lab.stages(), condition(lab.trained())
    claims, rows = condition_claims(seen, shares)
    return Finding(claims, rows, draw_condition(seen, shares), lab.about() + SIGNAL)


def stability(lab: Laboratory) -> Finding:
    """Figure 2b: mean |cos| between singular vectors of successive moments."""
    seen = lab.stages()
    claims, rows = stability_claims(seen)
    with figure_style():
        axes = new_figure(TWO_COLUMNS, 2.7).subplots(1, 2)
        for ax, matrix in zip(axes, ("W_V", "W_Q"), strict=True):
            draw_stability(seen, matrix, ax=ax)
    return Finding(claims, rows, axes, lab.about())


def norms(lab: Laboratory) -> Finding:
    """Figure 2c: Frobenius norms."""
    seen = lab.stages()
    claims, rows = norm_claims(seen)
    return Finding(claims, rows, draw_norms(seen), lab.about())


def without_activation(lab: Laboratory) -> Finding:
    """Figure 5: the three panels of Figure 2 for σ(z) = z."""
    seen, shares = lab.stages("identity"), condition(lab.trained("identity"))
    with figure_style():
        axes = new_figure(TWO_COLUMNS, 2.9).subplots(1, 3)
        draw_condition(seen, shares, ax=axes[0])
        draw_stability(seen, "W_Q", ax=axes[1])
        draw_norms(seen, ax=axes[2])
    claims, rows = together(
        {
            "condition": condition_claims(seen, shares),
            "stability": stability_claims(seen),
            "norms": norm_claims(seen),
        }
    )
    return Finding(claims, rows, axes, lab.about("identity") + SIGNAL)


SIGNAL = (
    " Assumption 1 is read along the signal: W_v = v W_V and W_2 o, v ⊗ o the top singular "
    "direction of the loss at zero weights."
)


def condition_claims(seen: Stages, shares: Any) -> tuple[list[Claim], list[dict[str, Any]]]:
    """When each family is satisfied, to stay so until the onset; the claim is that all are."""
    times = np.asarray(seen.run.times)
    end = times[-1] if seen.onset_norm is None else seen.onset_norm
    rows = []
    for name in FAMILIES:
        when = settled(times, shares[name] >= SATISFIED, end)
        rows.append(
            {
                "family": name,
                "start": float(shares[name][0]),
                "satisfied from step": when,
                "relative to condensed": _share(when, seen.condensed),
                "relative to onset": _share(when, seen.onset),
                "end": float(shares[name][-1]),
            }
        )
    early: list[Any] = [row["satisfied from step"] for row in rows]
    text = f"every family of Assumption 1 holds for {SATISFIED:.0%} of its indices before the onset"
    limit = np.inf if seen.onset is None else seen.onset
    held = all(when is not None and when < limit for when in early)
    return [claim(text, held, dict(zip(FAMILIES, early, strict=True)))], rows


def stability_claims(seen: Stages) -> tuple[list[Claim], list[dict[str, Any]]]:
    """Mean over vectors and moments before and after the onset, and the least of a moment."""
    before = seen.before(seen.onset)[1:]
    rows = []
    for name in MATRICES:
        left, right = map(np.asarray, stability_along(getattr(seen.run.states, name)))
        both = (left + right) / 2
        rows.append(
            {
                "matrix": name,
                "before the onset": float(both[before].mean()) if before.any() else None,
                "least before": float(both[before].min()) if before.any() else None,
                "after the onset": float(both[~before].mean()) if (~before).any() else None,
            }
        )
    still: dict[Any, Any] = {row["matrix"]: row["before the onset"] for row in rows}
    outer = [still[name] for name in ("W_V", "W_1", "W_2")]
    text = (
        "before the onset singular vectors of W_Q and W_K stand still: from moment to moment "
        "|cos| ≥ 0.95 in the mean"
    )
    quiet = [still[name] for name in ("W_Q", "W_K")]
    return [
        claim(text, None not in quiet and min(quiet) >= 0.95, quiet),
        claim("those of W_V, W_1 and W_2 turn meanwhile", None not in outer and
              None not in quiet and max(outer) < min(quiet), outer),
    ], rows  # fmt: skip


def norm_claims(seen: Stages) -> tuple[list[Claim], list[dict[str, Any]]]:
    """Norms at the stages, and how far the outer ones have grown when W_Q's doubles."""
    times = np.asarray(seen.run.times)
    moments = {"start": times[0], **{name: getattr(seen, name) for name in EVENTS}}
    moments["end"] = times[-1]
    rows = [
        {"moment": name, "step": time}
        | {W: float(np.interp(time, times, seen.norms[W])) for W in MATRICES}
        for name, time in moments.items()
        if time is not None
    ]
    table = {row["moment"]: row for row in rows}
    grown = None
    if "onset_norm" in table:
        grown = min(table["onset_norm"][W] / table["start"][W] for W in ("W_V", "W_1", "W_2"))
    text = "when ‖W_Q‖ has doubled, W_V, W_1 and W_2 have grown three times or more"
    return [claim(text, grown is not None and grown >= 3, grown)], rows


def draw_condition(seen: Stages, shares: Any, *, ax: Any = None) -> Any:
    """Shares of the four families, which are decided early."""
    seen = seen.early(None if seen.onset_norm is None else 2 * seen.onset_norm)
    values = {name: shares[name][: len(seen.run)] for name in FAMILIES}
    return figures.condensation_condition(seen.run, None, ax=ax, values=values, events=EVENTS)


def draw_stability(seen: Stages, matrix: str, *, ax: Any = None) -> Any:
    """Stability of one matrix's singular vectors."""
    seen = seen.early()
    title = f"Singular vectors of {symbol(matrix)}"
    return figures.singular_vector_stability(seen.run, matrix, ax=ax, events=EVENTS, title=title)


def draw_norms(seen: Stages, *, ax: Any = None) -> Any:
    """Norms of all matrices."""
    seen = seen.early()
    return figures.norms(seen.run, ax=ax, values=seen.norms, events=EVENTS)


def _share(when: float | None, other: float | None) -> float | None:
    return None if when is None or not other else when / other
