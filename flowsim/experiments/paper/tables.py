"""Tables over seeds, epochs and the transition."""

from typing import Any

import numpy as np

from flowsim.experiments.paper.finding import Finding, claim
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.stages import MATRICES, Stages, earlier
from flowsim.report import figures
from flowsim.report.canvas import axes_or_new, legend_below
from flowsim.report.style import curve_style, figure_style, symbol

#: Epochs of the table of norms, as shares of the run.
SHARES = (0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1)


def seeds(lab: Laboratory) -> Finding:
    """The authors' five seeds: stages, ranks and losses, with mean and standard deviation."""
    rows = [seed_row(lab, seed) for seed in lab.preset.seeds]
    onsets = [row["onset epoch"] for row in rows]
    falls = [row["rank of W_Q, onset"] / row["rank of W_Q, least"] for row in rows]
    ordered = [
        row["condensed epoch"] is not None
        and row["onset_norm epoch"] is not None
        and row["condensed epoch"] < row["onset_norm epoch"]
        for row in rows
    ]
    spread = None if None in onsets else float(np.ptp(onsets))
    claims = [
        claim("for every seed neurons condense before ‖W_Q‖ has doubled", all(ordered), ordered),
        claim("for every seed W_Q's effective rank falls to a half or less after the onset",
              all(fall >= 2 for fall in falls), falls),
        claim("the onset spreads over less than a quarter of its mean",
              spread is not None and spread < 0.25 * np.mean(onsets), spread),
    ]  # fmt: skip
    guess = np.log(lab.trained().data.vocabulary)
    notes = f"{lab.about()} An even guess over the vocabulary loses {guess:.3f} nats."
    return Finding(claims, [*rows, *statistics(rows)], draw_seeds(lab), notes)


def seed_row(lab: Laboratory, seed: int) -> dict[str, Any]:
    """One seed."""
    training, seen = lab.trained("tanh", seed), lab.stages("tanh", seed)
    epochs = {
        f"{name} epoch": None
        if (t := getattr(seen, name)) is None
        else t / training.steps_per_epoch
        for name in ("condensed", "onset", "onset_norm", "collapse")
    }
    rank, times = seen.ranks["W_Q"], np.asarray(seen.run.times)
    onset = times[-1] if seen.onset is None else seen.onset
    theta = (seen.run.final,)
    return {
        "seed": seed,
        **epochs,
        "rank of W_Q, onset": float(np.interp(onset, times, rank)),
        "rank of W_Q, least": float(rank.min()),
        "training loss": float(training.net.loss(theta, training.data)),
        "test loss": float(training.net.loss(theta, training.test)),
        "test accuracy": float(training.net.accuracy(theta, training.test)),
    }


def statistics(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation (n − 1) of every column that is complete."""
    columns = [key for key in rows[0] if key != "seed"]
    values = {key: [row[key] for row in rows] for key in columns}
    known = {key: x for key, x in values.items() if None not in x}
    spread = {key: float(np.std(x, ddof=1)) if len(x) > 1 else None for key, x in known.items()}
    return [
        {"seed": "mean"} | {key: float(np.mean(x)) for key, x in known.items()},
        {"seed": "standard deviation"} | spread,
    ]


def draw_seeds(lab: Laboratory, *, ax: Any = None) -> Any:
    """Effective ranks of W_Q and W_1 for every seed."""
    with figure_style():
        ax = axes_or_new(ax)
        for seed in lab.preset.seeds:
            seen = lab.stages("tanh", seed).early()
            for name in ("W_1", "W_Q"):
                first = seed == lab.preset.seeds[0]
                label = symbol(name) if first else "_"
                style = curve_style(name) | {"marker": None, "linewidth": 0.8}
                ax.plot(seen.run.times, seen.ranks[name], label=label, **style)
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("optimiser steps")
        ax.set_ylabel("effective rank")
        ax.set_title(f"{len(lab.preset.seeds)} seeds", loc="left")
        legend_below(ax)
    return ax


def epochs(lab: Laboratory) -> Finding:
    """Norms of W_Q and W_2 at epochs."""
    training, seen = lab.trained(), lab.stages()
    times = np.asarray(seen.run.times)
    rows = []
    for step in np.unique(np.round(np.array(SHARES) * times[-1])):
        sizes = {
            f"norm of {name}": float(np.interp(step, times, seen.norms[name]))
            for name in ("W_Q", "W_2")
        }
        rows.append({"epoch": step / training.steps_per_epoch, "step": int(step)} | sizes)
    norms = {name: seen.norms[name] for name in ("W_Q", "W_2")}
    growth = {name: float(x[-1] / x[0]) for name, x in norms.items()}
    doubled = {name: _doubling(times, x) for name, x in norms.items()}
    claims = [
        claim("‖W_2‖ doubles before ‖W_Q‖ does", doubled["W_Q"] is not None
              and earlier(doubled["W_2"], doubled["W_Q"]), doubled),
        claim("in the end ‖W_Q‖ has grown by the larger factor", growth["W_Q"] > growth["W_2"],
              growth),
    ]  # fmt: skip
    picture = figures.norms(seen.run, values=norms, names=("W_Q", "W_2"), events=("onset_norm",))
    return Finding(claims, rows, picture, lab.about())


def _doubling(times: np.ndarray, norm: np.ndarray) -> float | None:
    where = np.flatnonzero(norm >= 2 * norm[0])
    return float(times[where[0]]) if where.size else None


def transition(lab: Laboratory) -> Finding:
    """Relative changes a step around the onset, with the authors' sizes: about 1e-2 for attention,
    at most 1e-4 for the outer weights (theory.md, section 8)."""
    seen = lab.stages()
    rows = around_onset(seen)
    attention = [max(row["W_Q"], row["W_K"]) for row in rows]
    outer = [max(row["W_V"], row["W_1"], row["W_2"]) for row in rows]
    gaps = np.divide(attention, outer)
    best = int(np.argmax(gaps)) if rows else 0
    at = {"attention": attention[best], "outer": outer[best]} if rows else None
    near = bool(rows) and 1e-3 <= attention[best] <= 1e-1
    claims = [
        claim("at the transition attention changes by about 1e-2 a step (1e-3 to 1e-1)", near, at),
        claim("and the outer weights by at most 1e-4", bool(rows) and outer[best] <= 1e-4, at),
    ]
    seen = seen.early()
    picture = figures.change_rates(seen.run, values=seen.changes, events=("onset", "onset_norm"))
    return Finding(claims, rows, picture, lab.about())


def around_onset(seen: Stages) -> list[dict[str, Any]]:
    """The moments from a little before the onset to W_Q's smallest rank."""
    if seen.onset is None:
        return []
    times = np.asarray(seen.run.times)
    end = max(seen.collapse, 2 * seen.onset)
    chosen = np.flatnonzero((times >= 0.75 * seen.onset) & (times <= end))
    picked = chosen[np.unique(np.linspace(0, len(chosen) - 1, 15).astype(int))]
    return [
        {"step": int(times[i]), "steps since onset": float(times[i] - seen.onset)}
        | {name: float(seen.changes[name][i]) for name in MATRICES}
        for i in picked
    ]
