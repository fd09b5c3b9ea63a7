"""The residual block: W_proj first, then W_V, then W_Q and W_K (theory.md, section 11)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from flowsim.experiments.paper.finding import Finding, claim, order
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.stages import earlier
from flowsim.flows import Full
from flowsim.integrate import Event, integrate
from flowsim.network import ResidualTransformer, residual_parameters
from flowsim.observables.norms import frobenius
from flowsim.report import figures
from flowsim.report.canvas import legend_below, new_figure
from flowsim.report.figures.curves import draw
from flowsim.report.style import GREY, SPARE, TWO_COLUMNS, curve_style, figure_style
from flowsim.trajectory import Trajectory

#: The first stage is compared where W_proj has moved by this multiple of its start's size.
MOVED = 3.0
RTOL = 1e-10
NAMES = ("W_proj", "W_V", "W_1", "W_2", "W_Q", "W_K")
#: As the other figures colour them.
SHOWN = ("W_Q", "W_K", "W_V", "W_1", "W_2", "W_proj")


class Doubled(eqx.Module):
    """log of ‖W‖/(2 ‖W(0)‖) of one matrix, as an event's condition."""

    name: str = eqx.field(static=True)

    def __call__(self, t: Any, theta: Any, start: Any) -> Array:
        sizes = [frobenius(getattr(state, self.name)) for state in (theta, start)]
        return jnp.log(sizes[0]) - jnp.log(2 * sizes[1])


DOUBLINGS = {name: Event(Doubled(name)) for name in NAMES}


def figure(lab: Laboratory) -> Finding:
    """First stage over scales, and the order in which the matrices set out at the smallest."""
    net, task, preset = ResidualTransformer(), lab.task, lab.preset
    unit = residual_parameters(jax.random.key(preset.seeds[0]), task.width, scale=1.0)
    drift = float(jnp.linalg.norm(task.y @ task.last_tokens / task.size))
    span = MOVED * task.width**0.5 / drift
    rows = [row(net, task, unit, scale, span * scale) for scale in preset.scales]
    found = order([r["scale"] for r in rows], [r["error of W_proj"] for r in rows])
    start = jax.tree.map(lambda W: preset.scales[-1] * W, unit)
    run = followed(net, task, start, preset.residual_time)
    doubled = {name: run.event_times.get(name) for name in NAMES}
    claims = [
        claim("W_proj grows linearly as predicted, error O(ε): order ≥ 0.9",
              found is not None and found >= 0.9, found),
        claim("W_proj doubles first", first(doubled, ("W_proj",), NAMES[1:]), doubled),
        claim("W_V doubles before W_Q and W_K", first(doubled, ("W_V",), ("W_Q", "W_K")), doubled),
    ]  # fmt: skip
    rows += [{"matrix": name, "time of doubling": time} for name, time in doubled.items()]
    notes = f"{task!r}, tanh, exponential loss, training time to {preset.residual_time:g}."
    return Finding(claims, rows, picture(rows, run, found), notes)


def followed(net: Any, task: Any, start: Any, end: float) -> Trajectory:
    """The full flow with its doublings; all runs share their compiled code."""
    times = np.append(0.0, np.geomspace(1e-6 * end, end, 300))
    return integrate(
        Full(net, task), start, end, args=start, times=times, events=DOUBLINGS, rtol=RTOL
    )


def row(net: Any, task: Any, unit: Any, scale: float, t1: float) -> dict[str, Any]:
    """W_proj of the full flow against its straight line, at one scale."""
    theta0 = jax.tree.map(lambda W: scale * W, unit)
    full = followed(net, task, theta0, t1).final
    line = net.first_stage(theta0, task, t1)
    error = float(jnp.linalg.norm(full.W_proj - line) / jnp.linalg.norm(line))
    return {"scale": scale, "time": t1, "error of W_proj": error}


def first(times: dict[str, float | None], early: Any, late: Any) -> bool:
    """Whether all of the early ones came, before each of the late ones."""
    return all(earlier(times[one], times[other]) for one in early for other in late)


def picture(rows: Any, run: Any, found: float | None) -> Any:
    """Error of the first stage over ε (the thin line has slope 1), and norms over time with their
    doublings."""
    with figure_style():
        left, right = new_figure(TWO_COLUMNS, 2.6).subplots(1, 2)
        points = [(r["scale"], r["error of W_proj"]) for r in rows if "scale" in r]
        scales, errors = np.asarray(points).T
        shown = "–" if found is None else f"{found:.2f}"
        left.loglog(scales, errors, "o-", color=SPARE[0][0], label=f"order {shown}")
        left.loglog(scales, errors[-1] * scales / scales[-1], color=GREY, linewidth=0.6)
        left.set_xlabel(r"scale $\varepsilon$ of the start")
        left.set_ylabel(r"relative error of $W_\mathrm{proj}$")
        left.set_title("First stage", loc="left", pad=3)
        left.legend()
        norms = figures.curves.measured(run, _norms, None)
        draw(run, norms, ax=right, ylabel=r"$\|W\|_F$", title="Norms", log=True, names=SHOWN,
             labels={"W_proj": r"$W_\mathrm{proj}$"})  # fmt: skip
        doubled = [name for name in SHOWN if name in run.event_times]
        for name in doubled:
            color = curve_style(name, SHOWN.index(name))["color"]
            right.plot(run.event_times[name], 2 * norms[name][0], "o", markersize=6,
                       fillstyle="none", color=color,
                       label="doubled" if name == doubled[0] else "_")  # fmt: skip
        legend_below(right)
        right.set_xscale("log")
        right.set_xlim(left=run.times[1])
    return [left, right]


def _norms(theta: Any) -> dict:
    return {name: frobenius(getattr(theta, name)) for name in NAMES}
