"""Figure 1 of [CL]: similarities, relative changes and effective ranks along the training."""

from typing import Any

import numpy as np

from flowsim.experiments.paper.finding import Claim, Finding, claim, together
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.stages import EVENTS, MATRICES, Stages, with_steps
from flowsim.observables import cosine_similarity
from flowsim.report import figures
from flowsim.report.canvas import new_figure
from flowsim.report.event_marks import LABELS
from flowsim.report.figures.similarity import (
    similarity_bar,
    similarity_gallery,
    similarity_matrices,
)
from flowsim.report.style import TWO_COLUMNS, figure_style

#: W_Q's effective rank falls by this factor at least.
FALL = 2.0


def similarities(lab: Laboratory) -> Finding:
    """Figure 1a: reordered cosine similarities of rows at the stages."""
    seen = lab.stages()
    claims, rows = similarity_claims(seen)
    return Finding(claims, rows, similarity_gallery(seen.run, at=headed(seen)), lab.about())


def changes(lab: Laboratory) -> Finding:
    """Figure 1b: relative change a step, with the onset of stage 2."""
    seen = lab.stages()
    claims, rows = change_claims(seen)
    return Finding(claims, rows, draw_changes(seen), lab.about())


def ranks(lab: Laboratory) -> Finding:
    """Figure 1c: effective ranks."""
    seen = lab.stages()
    claims, rows = rank_claims(seen)
    return Finding(claims, rows, draw_ranks(seen), lab.about())


def without_activation(lab: Laboratory) -> Finding:
    """Figure 4: the three panels of Figure 1 for σ(z) = z."""
    seen = lab.stages("identity")
    with figure_style():
        figure = new_figure(TWO_COLUMNS, 4.4)
        top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.4))
        axes = top.subplots(1, 4)
        similarity_matrices(seen.run, axes=axes, at=headed(seen), compact=True)
        axes[0].set_ylabel("rows of $W_Q$")
        similarity_bar(axes)
        left, right = bottom.subplots(1, 2)
        draw_changes(seen, ax=left)
        draw_ranks(seen, ax=right)
    claims, rows = together(
        {
            "similarities": similarity_claims(seen),
            "changes": change_claims(seen),
            "ranks": rank_claims(seen),
        }
    )
    return Finding(claims, rows, [*axes, left, right], lab.about("identity"))


def moments(seen: Stages) -> dict[str, float | None]:
    """The four moments of Figure 1a."""
    return {
        "start": float(seen.run.times[0]),
        "condensed": seen.condensed,
        "onset_norm": seen.onset_norm,
        "collapse": seen.collapse,
    }


def headed(seen: Stages) -> dict[str, float | None]:
    """The same under what stands over the panels."""
    return with_steps({LABELS.get(name, name): time for name, time in moments(seen).items()})


def similarity_claims(seen: Stages) -> tuple[list[Claim], list[dict[str, Any]]]:
    """Mean |cos| between different rows, at the four moments."""
    rows: list[dict[str, Any]] = []
    for name, time in moments(seen).items():
        if time is not None:
            layer = seen.run.evaluate(time)
            means = {f"rows of {W}": mean_cosine(getattr(layer, W)) for W in MATRICES}
            rows.append({"moment": name, "step": time} | means)
    table = {row["moment"]: row for row in rows}
    early = table.get("condensed", {})
    outer = [early.get(f"rows of {name}") for name in ("W_V", "W_1", "W_2")]
    W_Q = [table[name]["rows of W_Q"] for name in table]
    return [
        claim("when neurons are condensed, rows of W_V, W_1, W_2 have mean |cos| ≥ 0.8",
              all(value is not None and value >= 0.8 for value in outer), outer),
        claim("W_Q's rows are no more alike then than at the start (to 0.1)",
              bool(early) and early["rows of W_Q"] <= W_Q[0] + 0.1, W_Q),
        claim("at the collapse W_Q's rows have mean |cos| ≥ 0.8",
              table["collapse"]["rows of W_Q"] >= 0.8, W_Q),
    ], rows  # fmt: skip


def mean_cosine(W: Any) -> float:
    """Mean |cos| between different rows."""
    found = np.abs(np.asarray(cosine_similarity(W)))
    count = len(found)
    return float((found.sum() - np.trace(found)) / (count * (count - 1)))


def change_claims(seen: Stages) -> tuple[list[Claim], list[dict[str, Any]]]:
    """When attention overtakes, and how far the neurons are then."""
    times = np.asarray(seen.run.times)
    rows = []
    for name in (*EVENTS, "collapse"):
        time = getattr(seen, name)
        if time is not None:
            at = int(np.searchsorted(times, time))
            values = {W: float(seen.changes[W][min(at, len(times) - 1)]) for W in MATRICES}
            rows.append({"moment": name, "step": time} | values)
    before = seen.before(seen.onset)
    early = max(float(np.max(seen.changes[W][:1])) for W in ("W_Q", "W_K"))
    outer = min(float(np.min(seen.changes[W][:1])) for W in ("W_V", "W_1", "W_2"))
    return [
        claim("the outer weights move first: ten times faster than W_Q, W_K at the start",
              outer > 10 * early, [early, outer]),
        claim("attention overtakes (onset of stage 2)",
              seen.onset is not None and before.any(), seen.onset),
    ], rows  # fmt: skip


def rank_claims(seen: Stages) -> tuple[list[Claim], list[dict[str, Any]]]:
    """Effective ranks at start, onset and minimum; who falls first."""
    times, ranks = np.asarray(seen.run.times), seen.ranks
    halved = {
        name: times[np.flatnonzero(ranks[name] <= ranks[name][0] / 2)[:1]] for name in MATRICES
    }
    when: dict[str, Any] = {name: float(t[0]) if t.size else None for name, t in halved.items()}
    at = int(np.searchsorted(times, np.inf if seen.onset is None else seen.onset))
    rows = [
        {"matrix": name, "start": ranks[name][0], "onset": ranks[name][min(at, len(times) - 1)],
         "least": ranks[name].min(), "end": ranks[name][-1], "step of half its start": when[name]}
        for name in MATRICES
    ]  # fmt: skip
    W_Q = next(row for row in rows if row["matrix"] == "W_Q")
    fall = float(W_Q["onset"] / W_Q["least"])
    text = f"after the onset W_Q's effective rank falls by {FALL:g} or more"
    outer = [when[name] for name in ("W_V", "W_1", "W_2")]
    ordered = None not in outer and when["W_Q"] is not None and max(outer) < when["W_Q"]
    return [
        claim(text, fall >= FALL, fall),
        claim("W_V, W_1 and W_2 lose half their rank before W_Q does", ordered, when),
    ], rows  # fmt: skip


def draw_changes(seen: Stages, *, ax: Any = None) -> Any:
    """Relative changes a step."""
    seen = seen.early()
    return figures.change_rates(seen.run, ax=ax, values=seen.changes, events=EVENTS)


def draw_ranks(seen: Stages, *, ax: Any = None) -> Any:
    """Effective ranks of all matrices."""
    seen = seen.early()
    return figures.effective_ranks(
        seen.run, ax=ax, values=seen.ranks, events=EVENTS, names=MATRICES
    )
