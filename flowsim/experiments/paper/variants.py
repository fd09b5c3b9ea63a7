"""Variants of the theory: other activations and losses, their first stage and its error."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowsim.experiments.paper.finding import Finding, claim, order
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.flows import LeadingOrder
from flowsim.integrate import Event, integrate, simulate
from flowsim.integrate.simulate import Escape
from flowsim.network import OneLayerTransformer
from flowsim.report.canvas import axes_or_new, legend_below
from flowsim.report.style import GREY, SPARE, figure_style

#: Errors are taken at this share of T*. Runs for the escape end where ‖W_2‖ is this many times √ε,
#: at `BEYOND` T* at the latest.
SHARE, STOP, BEYOND = 0.75, 1.5, 1.5
RTOL = 1e-10
ERRORS = {
    "outer": "$W_V, W^{[1]}, W^{[2]}$",
    "attention": "$W_Q, W_K$",
    "escape": "escape time",
}


def variant(activation: str, loss: str) -> Callable[[Laboratory], Finding]:
    """The figure of one activation and loss."""
    return lambda lab: first_stage(lab, OneLayerTransformer(activation, loss))


def first_stage(lab: Laboratory, net: OneLayerTransformer) -> Finding:
    """The simulated first stage against the leading-order flow, over scales ε of one start.

    At a fixed share of T* normalised outer weights differ by O(ε²), and W_Q, W_K have drifted by
    O(ε²) (theory.md, section 2); the escape differs from T* by a share that falls with ε.
    """
    rows = [row(lab, net, scale) for scale in lab.preset.scales]
    scales = [r["scale"] for r in rows]
    orders = {name: order(scales, [r[name] for r in rows]) for name in ERRORS}
    claims = [
        claim("error of the outer weights is O(ε²): order ≥ 1.8", _at_least(orders["outer"], 1.8),
              orders["outer"]),
        claim("drift of W_Q, W_K is O(ε²): order 2 ± 0.2",
              orders["attention"] is not None and abs(orders["attention"] - 2) < 0.2,
              orders["attention"]),
        claim("the escape tends to the predicted T: order ≥ 0.8", _at_least(orders["escape"], 0.8),
              orders["escape"]),
    ]  # fmt: skip
    name = f"{net.activation.name}, {net.margin_loss.name} loss"
    notes = f"{lab.task!r}, {name}; errors at {SHARE} T*, one start scaled by ε."
    return Finding(claims, rows, draw(rows, orders, name), notes)


def row(lab: Laboratory, net: OneLayerTransformer, scale: float) -> dict[str, Any]:
    """One scale."""
    theta0 = jax.tree.map(lambda W: scale * W, lab.unit_start())
    kappa = float(net.kappa(lab.task))
    T = lab.blow_up_time(net.direction(lab.task)) / (kappa * scale)
    t1 = SHARE * T
    stop = Event(Escape(jnp.log(STOP * jnp.sqrt(theta0.scale))), terminal=True)
    times, events = [t1, BEYOND * T], {"stop": stop}
    run = simulate(net, lab.task, theta0, t1=times[-1], times=times, events=events, rtol=RTOL)
    full = jax.tree.map(lambda W: W[0], run.states)
    flow = LeadingOrder(lab.task, kappa, net.direction(lab.task))
    leading = integrate(flow, theta0, t1, times=[t1], rtol=RTOL).final
    escape = run.event_times.get("escape")
    return {
        "scale": scale,
        "predicted T": T,
        "simulated T": escape,
        "escape": None if escape is None else abs(escape - T) / T,
        "outer": distance(full, leading, ("W_V", "W_1", "W_2")),
        "attention": distance(full, leading, ("W_Q", "W_K")),
    }


def distance(state: Any, other: Any, names: tuple[str, ...]) -> float:
    """‖θ − θ'‖/‖θ'‖ over these matrices."""
    pairs = [(getattr(state, name), getattr(other, name)) for name in names]
    apart = sum(float(jnp.sum((a - b) ** 2)) for a, b in pairs)
    return float(np.sqrt(apart / sum(float(jnp.sum(b**2)) for _, b in pairs)))


def draw(rows: Any, orders: Any, title: str, *, ax: Any = None) -> Any:
    """Errors over ε, both axes logarithmic; the thin line has slope 2."""
    with figure_style():
        ax = axes_or_new(ax)
        scales = np.array([r["scale"] for r in rows])
        for position, (name, label) in enumerate(ERRORS.items()):
            errors = np.array([np.nan if r[name] is None else r[name] for r in rows])
            color, marker = SPARE[position]
            shown = "–" if orders[name] is None else f"{orders[name]:.2f}"
            ax.loglog(scales, errors, marker=marker, color=color, label=f"{label}: order {shown}")
            if name == "outer":
                line = errors[-1] * (scales / scales[-1]) ** 2
                ax.loglog(scales, line, color=GREY, linewidth=0.6)
        ax.set_xlabel(r"scale $\varepsilon$ of the start")
        ax.set_ylabel("relative difference")
        ax.set_title(title, loc="left")
        legend_below(ax)
    return ax


def _at_least(value: float | None, low: float) -> bool:
    return value is not None and value >= low
