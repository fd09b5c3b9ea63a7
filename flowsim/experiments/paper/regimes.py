"""Initial scales d^(−γ): from the linear regime to the condensed one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.experiments.paper.finding import Finding, claim, order
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.integrate import Event, simulate
from flowsim.network import OneLayerTransformer
from flowsim.observables import abs_cosines, condensation_rate, frobenius
from flowsim.predict import find_plateau
from flowsim.report.canvas import new_figure
from flowsim.report.style import SPARE, TWO_COLUMNS, figure_style

#: Stage 1 counts as done where the loss has come this share of the way to its plateau.
LEARNED = 0.9
#: The wait for that, in units 1/κ, beyond the time 1/(κ ε).
PATIENCE = 200.0


def figure(lab: Laboratory) -> Finding:
    """The same unit start scaled to ε = d^(−γ), to the end of stage 1.

    Look for: at small γ weights move little, relative to their start, and keep their directions
    (linear regime); at large γ W_V's columns all turn to ±v (condensed regime) and the predicted T
    becomes exact.
    """
    net, task = OneLayerTransformer(), lab.task
    rows = [row(lab, net, gamma) for gamma in lab.preset.rates]
    condensed = [r["columns of W_V along v"] for r in rows]
    moved = [r["relative change of W_V"] for r in rows]
    late = [r for r in rows if r["gamma"] >= 0.75 and r["error of T"]]
    found = order([r["scale"] for r in late], [r["error of T"] for r in late])
    claims = [
        claim("condensation grows with γ", np.all(np.diff(condensed) >= -0.02), condensed),
        claim("weights move further, relative to their start, as γ grows",
              np.all(np.diff(moved) > 0), moved),
        claim("the predicted T becomes exact as ε falls: order ≥ 0.8 over γ ≥ 0.75",
              found is not None and found >= 0.8, found),
    ]  # fmt: skip
    notes = f"{task!r}, d = {task.width}, tanh, exponential loss, one start scaled by d^(−γ)."
    return Finding(claims, rows, draw(rows), notes)


def row(lab: Laboratory, net: OneLayerTransformer, gamma: float) -> dict[str, Any]:
    """One γ: the state where stage 1 ends."""
    task = lab.task
    scale = task.width**-gamma
    theta0 = jax.tree.map(lambda W: scale * W, lab.unit_start())
    kappa = float(net.kappa(task))
    T = lab.blow_up_time(net.direction(task)) / (kappa * scale)
    plateau = find_plateau(net, task)
    low = 0.0 if plateau.loss is None else float(plateau.loss)
    level = (1 - LEARNED) * float(net.loss(theta0, task)) + LEARNED * low
    events = {"learned": Event(LossBelow(net, task, jnp.asarray(level)), terminal=True)}
    run = simulate(net, task, theta0, t1=2 * T + PATIENCE / kappa, events=events, rtol=1e-7)
    end, escape = run.final, run.event_times.get("escape")
    v = net.direction(task)
    return {
        "gamma": gamma,
        "scale": scale,
        "predicted T": T,
        "simulated T": escape,
        "error of T": None if escape is None else abs(escape - T) / T,
        "end of stage 1": run.event_times.get("learned"),
        "columns of W_V along v": float(condensation_rate(end.W_V, v)),
        "median cosine to v": float(jnp.median(abs_cosines(end.W_V, v))),
        "relative change of W_V": float(frobenius(end.W_V - theta0.W_V) / frobenius(theta0.W_V)),
    }


class LossBelow(eqx.Module):
    """level − L(θ): crosses zero upwards where the loss has fallen to the level."""

    net: Any
    task: Any
    level: Float[Array, ""]

    def __call__(self, t: Any, theta: Any, args: Any) -> Float[Array, ""]:
        """The event's condition."""
        return self.level - self.net.loss(theta, self.task)


def draw(rows: Any) -> Any:
    """Condensation and movement over γ, and the error of T over ε."""
    with figure_style():
        left, right = new_figure(TWO_COLUMNS, 2.5).subplots(1, 2)
        gamma = [r["gamma"] for r in rows]
        (color, marker), (other, square) = SPARE[:2]
        left.plot(gamma, [r["columns of W_V along v"] for r in rows], marker=marker, color=color,
                  label="share with $|\\cos| \\geq 0.95$")  # fmt: skip
        left.plot(gamma, [r["median cosine to v"] for r in rows], marker=square, color=other,
                  label="median $|\\cos|$")  # fmt: skip
        left.set_xlabel(r"$\gamma$, start $N(0, d^{-2\gamma})$")
        left.set_ylabel("columns of $W_V$ against $v$")
        left.set_ylim(-0.04, 1.04)
        left.set_title("Condensation at the end of stage 1", loc="left")
        left.legend()
        known = [(r["scale"], r["error of T"]) for r in rows if r["error of T"]]
        if known:
            right.loglog(*np.asarray(known).T, marker=marker, color=color)
        right.set_xlabel(r"scale $\varepsilon = d^{-\gamma}$")
        right.set_ylabel("relative error of $T$")
        right.set_title("Predicted blow-up time", loc="left")
    return [left, right]
