"""Condensation by Theorem 2 of [CL]: how fast directions settle as the blow-up comes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.blow_up import blow_up_time
from flowsim.experiments.paper.finding import Finding, claim, order
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.flows import LeadingOrder
from flowsim.flows.leading_order import outer
from flowsim.integrate import integrate
from flowsim.network import Parameters
from flowsim.observables import along
from flowsim.observables.invariants import hidden_invariant, value_invariant
from flowsim.observables.norms import unit_vectors
from flowsim.report.canvas import axes_or_new, legend_below
from flowsim.report.style import curve_style, figure_style, prediction_style

#: Distances from the blow-up, as shares of T*: the errors are followed through the first range and
#: their orders and factors taken in the second, where higher orders have died out and rounding has
#: not come in.
RANGE, FITTED, POINTS = (0.5, 2e-4), (1e-2, 5e-4), 60
RTOL = 1e-13
ORDERS = {
    "w to n": 2,
    "W_2 to m": 2,
    "columns of W_V to v": 1,
    "rows of W_V to n": 1,
    "columns of W_1 to n": 1,
    "rows of W_1 to m": 1,
}
LABELS = {
    "w to n": r"$w \to n$",
    "W_2 to m": r"$W^{[2]} \to m$",
    "columns of W_V to v": r"$W_V$ columns $\to v$",
    "rows of W_V to n": r"$W_V$ rows $\to n$",
    "columns of W_1 to n": r"$W^{[1]}$ columns $\to n$",
    "rows of W_1 to m": r"$W^{[1]}$ rows $\to m$",
}


def figure(lab: Laboratory) -> Finding:
    """Sines of the angles to the limits along the leading-order flow, over τ = T* − t̄.

    From w = n/τ + ½(…)τ (theory.md, section 5): w → n and W_2 → m with errors ½‖P_n A n‖τ² and
    ½‖P_m B m‖τ², P the projection across. What stands still in the matrices weighs more: columns
    of W_V keep their part across v, so they reach ±v like ‖P_v W_V,i(0)‖ τ/|n_i|, and rows reach n
    like τ too; likewise in W_1.
    """
    task, start = lab.task, lab.unit_start()
    found = blow_up_time(*outer(start, task.direction))
    T = float(found.time)
    n, m = jnp.asarray(found.value_direction), jnp.asarray(found.hidden_direction)
    tau = T * np.geomspace(*RANGE, POINTS)
    flow = LeadingOrder(task, 1.0)
    run = integrate(flow, start, T - tau[-1], times=T - tau, rtol=RTOL)
    measured = along(run, eqx.Partial(sines, task.direction, n, m))
    factors = predicted_factors(start, task.direction, n, m)
    fitted = (tau <= FITTED[0] * T) & (tau >= FITTED[1] * T)
    rows = [row(name, tau[fitted], measured[name][fitted], factors.get(name)) for name in ORDERS]
    worst = max(abs(r["order"] - r["predicted order"]) for r in rows)
    ratios = {
        r["limit"]: r["factor"] / r["predicted factor"] for r in rows if r["limit"] in factors
    }
    claims = [
        claim("orders in τ: 2 for w and W_2, 1 for the matrices (± 0.05)", worst < 0.05, worst),
        claim(
            "factors as predicted from the start, to 5 %",
            all(abs(ratio - 1) < 0.05 for ratio in ratios.values()),
            ratios,
        ),
    ]
    notes = (
        f"{task!r}, unit Gaussian start, T* = {T:.8g}; medians over columns or rows. Errors O(τ²) "
        "hold for the vectors w and W_2; columns and rows of the matrices follow with O(τ)."
    )
    return Finding(claims, rows, draw(tau / T, measured, factors, T), notes)


def sines(v: Array, n: Array, m: Array, theta: Parameters) -> dict[str, Float[Array, ""]]:
    """Sine of the angle to the limit; for matrices the median over columns or rows."""
    w, W_1, W_2 = outer(theta, v)
    return {
        "w to n": _across(w, n),
        "W_2 to m": _across(W_2, m),
        "columns of W_V to v": _median(theta.W_V, v, "columns"),
        "rows of W_V to n": _median(theta.W_V, n, "rows"),
        "columns of W_1 to n": _median(W_1, n, "columns"),
        "rows of W_1 to m": _median(W_1, m, "rows"),
    }


def predicted_factors(start: Parameters, v: Array, n: Array, m: Array) -> dict[str, float]:
    """Factors of the leading power of τ, from the start and its limits n, m alone."""
    w, W_1, W_2 = outer(start, v)
    still = start.W_V - jnp.outer(v, w)
    across_n = still - jnp.outer(still @ n, n)
    return {
        "w to n": 0.5 * _norm_across(value_invariant(w, W_1) @ n, n),
        "W_2 to m": 0.5 * _norm_across(hidden_invariant(W_1, W_2) @ m, m),
        "columns of W_V to v": float(jnp.median(jnp.linalg.norm(still, axis=0) / jnp.abs(n))),
        "rows of W_V to n": float(jnp.median(jnp.linalg.norm(across_n, axis=1) / jnp.abs(v))),
    }


def row(name: str, tau: np.ndarray, sine: np.ndarray, factor: float | None) -> dict[str, Any]:
    """One line of the table."""
    power = ORDERS[name]
    return {
        "limit": name,
        "order": order(tau, sine),
        "predicted order": power,
        "factor": float(sine[-1] / tau[-1] ** power),
        "predicted factor": factor,
    }


def draw(
    shares: np.ndarray, measured: Any, factors: dict[str, float], T: float, *, ax: Any = None
) -> Any:
    """Sines over τ/T*, the predicted leading terms dashed."""
    with figure_style():
        ax = axes_or_new(ax, height=3.0)
        for position, name in enumerate(ORDERS):
            ax.loglog(shares, measured[name], label=LABELS[name], **curve_style(name, position))
        for position, (name, factor) in enumerate(factors.items()):
            style = prediction_style() | {"label": "_" if position else "predicted"}
            ax.loglog(shares, factor * (shares * T) ** ORDERS[name], **style)
        ax.invert_xaxis()
        ax.set_xlabel(r"$(T^* - \bar t)\,/\,T^*$")
        ax.set_ylabel("sine of the angle to the limit")
        ax.set_title("Condensation towards the blow-up", loc="left")
        legend_below(ax)
    return ax


def _across(vector: Array, unit: Array) -> Array:
    """Sine of the angle, from the part across, so that small angles keep their digits."""
    direction = unit_vectors(vector)
    return jnp.linalg.norm(direction - (direction @ unit) * unit)


def _median(W: Array, unit: Array, vectors: str) -> Array:
    rows = W.T if vectors == "columns" else W
    return jnp.median(jax.vmap(lambda x: _across(x, unit))(rows))


def _norm_across(vector: Array, unit: Array) -> float:
    return float(jnp.linalg.norm(vector - (vector @ unit) * unit))
