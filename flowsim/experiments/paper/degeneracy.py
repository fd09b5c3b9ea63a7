"""Almost-sure non-degeneracy: how close Gaussian starts come to breaking Definition 4 of [CL]."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.experiments.paper.finding import Finding, claim, order
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.observables.invariants import nondegeneracy, norm_gap
from flowsim.report.canvas import axes_or_new, legend_below
from flowsim.report.style import GREY, SPARE, figure_style

#: Starts that are drawn together, and sums of rounding errors below which nothing is told from 0.
TOGETHER, ROUNDING = 500, 1e-13
NAMES = {"gap": r"$|D|\,/\,N$", "condition": r"$|$[CL 10]$|\,/\,N^2$"}


def figure(lab: Laboratory) -> Finding:
    """Distance from degeneracy of many unit Gaussian starts, relative to N = ‖w‖²+‖W_1‖²+‖W_2‖².

    A start is non-degenerate where D ≠ 0 and the left side of [CL 10] ≠ 0. Both have a bounded
    density at 0 if the share of starts closer than δ falls like δ.
    """
    preset = lab.preset
    found = distances(preset.census_width, preset.census_count, jax.random.key(0))
    rows = [summary(name, np.sort(np.asarray(values))) for name, values in found.items()]
    closest = min(row["closest"] for row in rows)
    orders = [row["order"] for row in rows]
    claims = [
        claim("no start is degenerate beyond rounding", closest > ROUNDING, closest),
        claim(
            "the share of starts closer than δ falls like δ (order 1 ± 0.15)",
            all(p is not None and abs(p - 1) < 0.15 for p in orders),
            orders,
        ),
    ]
    notes = f"{preset.census_count} starts, h = m = {preset.census_width}, unit Gaussian weights."
    return Finding(claims, rows, draw(found), notes)


def distances(width: int, count: int, key: Array) -> dict[str, Float[Array, "count"]]:
    """|D|/N and |left side of [CL 10]|/N² of start i, drawn from fold_in(key, i)."""

    def start(i):
        parts = zip(
            jax.random.split(jax.random.fold_in(key, i), 3),
            [(width,), (width, width), (width,)],
            strict=True,
        )
        w, W_1, W_2 = (jax.random.normal(k, shape) for k, shape in parts)
        N = jnp.sum(w**2) + jnp.sum(W_1**2) + jnp.sum(W_2**2)
        gap, condition = norm_gap(w, W_2), nondegeneracy(w, W_1, W_2)
        return {"gap": jnp.abs(gap) / N, "condition": jnp.abs(condition) / N**2}

    return jax.jit(lambda i: jax.lax.map(start, i, batch_size=TOGETHER))(jnp.arange(count))


def summary(name: str, ordered: np.ndarray) -> dict[str, Any]:
    """One line of the table, with the order of the share closer than δ in its lower tail."""
    shares = (np.arange(ordered.size) + 1) / ordered.size
    tail = slice(max(1, ordered.size // 2000), max(3, ordered.size // 10))
    return {
        "quantity": name,
        "starts": ordered.size,
        "closest": float(ordered[0]),
        "share 1e-4 is closer than": float(ordered[int(1e-4 * ordered.size)]),
        "share 1e-2 is closer than": float(ordered[int(1e-2 * ordered.size)]),
        "median": float(np.median(ordered)),
        "order": order(ordered[tail], shares[tail]),
    }


def draw(found: dict[str, Any], *, ax: Any = None) -> Any:
    """Share of starts closer to degeneracy than δ; the thin lines have slope 1."""
    with figure_style():
        ax = axes_or_new(ax)
        for position, (name, values) in enumerate(found.items()):
            ordered = np.sort(np.asarray(values))
            shares = (np.arange(ordered.size) + 1) / ordered.size
            color = SPARE[position][0]
            ax.loglog(ordered, shares, color=color, label=NAMES[name])
            middle = ordered.size // 100
            x = ordered[[0, ordered.size // 2]]
            ax.loglog(x, shares[middle] * x / ordered[middle], color=GREY, linewidth=0.6)
        ax.set_xlabel(r"distance from degeneracy $\delta$")
        ax.set_ylabel("share of starts closer")
        ax.set_title("No start is degenerate", loc="left")
        legend_below(ax)
    return ax
