"""`simulate`: the gradient flow of the full model from its start through both stages."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from flowsim import checks
from flowsim.flows import Full
from flowsim.integrate import solve
from flowsim.integrate.events import Event
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.observables.conserved import largest_drift
from flowsim.observables.norms import frobenius
from flowsim.observables.rates import group_rates, relative_rates
from flowsim.outcome import Outcome
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

#: The plateau begins where ‖∇_outer L‖ has fallen to this fraction of its largest value so far.
PLATEAU_FRACTION = 0.05
#: Growth of ‖W_Q‖ since the start that counts as onset by norm.
ONSET_GROWTH = 2.0
#: Stage 2 is followed for at least this many units 1/κ of training time past its onset, and the
#: escape is waited for during this many units 1/(κ ε).
STAGE_2_UNITS, PATIENCE = 5.0, 1e3
#: A run is trusted while its conserved matrices drift, and its energy balance errs, by less than
#: this many tolerances, beside this many units in the last place of the loss.
DRIFT_CLASS, ROUNDING = 1e3, 64


class Escape(eqx.Module):
    """log(‖W_2‖/√ε): zero where W_2 has grown to the square root of the start's scale."""

    log_level: Array

    def __call__(self, t: Any, theta: Parameters, args: Any) -> Array:
        """The condition of the event `escape`."""
        return jnp.log(frobenius(theta.W_2)) - self.log_level


class NormGrowth(eqx.Module):
    """log of ‖W_Q‖ over a multiple of its start: onset of stage 2 by norm."""

    log_level: Array

    def __call__(self, t: Any, theta: Parameters, args: Any) -> Array:
        """The condition of the event `onset_norm`."""
        return jnp.log(frobenius(theta.W_Q)) - self.log_level


def rate_crossover(t: Any, theta: Parameters, args: Any, rate: Parameters) -> Array:
    """Log ratio of the largest relative rates of attention and outer matrices: the event `onset`
    (theory.md, section 8)."""
    attention, outer = group_rates(relative_rates(theta, rate))
    tiny = jnp.finfo(attention.dtype).tiny
    return jnp.log(jnp.maximum(attention, tiny)) - jnp.log(jnp.maximum(outer, tiny))


def outer_speed(t: Any, theta: Parameters, args: Any, rate: Parameters) -> Array:
    """‖∇_outer L‖, whose decline marks the event `plateau` (theory.md, section 8)."""
    return frobenius(jnp.stack([frobenius(W) for W in (rate.W_V, rate.W_1, rate.W_2)]))


def power(t: Any, theta: Parameters, rate: Parameters) -> Array:
    """‖∇L‖² = −dL/dt along the flow (theory.md, section 2)."""
    return sum((jnp.sum(x**2) for x in jax.tree.leaves(rate)), start=jnp.zeros_like(t))


class TwoStageEnd(eqx.Module):
    """Runs to onset + (onset − T), T the escape time, but at most 10 T.

    Where stage 2 follows stage 1 at once it still gets a few units `unit` of training time; until
    the escape is known the run may take `patience`.
    """

    escape_index: int = eqx.field(static=True)
    onset_index: int = eqx.field(static=True)
    tail: Array
    unit: Array
    patience: Array

    def __call__(self, first: Array) -> Array:
        """The end time, given the first time of each event."""
        escape = first[self.escape_index] + self.tail
        onset = first[self.onset_index]
        after = onset + jnp.maximum(onset - escape, STAGE_2_UNITS * self.unit)
        end = jnp.minimum(10 * escape, after)
        return jnp.where(jnp.isfinite(escape), end, self.patience)


def standard_events(theta0: Parameters) -> dict[str, Event]:
    """The events `escape`, `plateau`, `onset`, `onset_norm` of a run from theta0."""
    growth = jnp.asarray(ONSET_GROWTH, theta0.W_Q.dtype)
    tiny = jnp.finfo(theta0.W_Q.dtype).tiny
    start = jnp.maximum(frobenius(theta0.W_Q), tiny)
    return {
        "escape": Event(Escape(0.5 * jnp.log(jnp.maximum(theta0.scale, tiny)))),
        "onset": Event(rate_crossover, with_rate=True),
        "onset_norm": Event(NormGrowth(jnp.log(start) + jnp.log(growth))),
        "plateau": Event(outer_speed, decline=PLATEAU_FRACTION, with_rate=True),
    }


def simulate(
    net: OneLayerTransformer,
    task: Task,
    theta0: Parameters,
    *,
    t1: Any = None,
    times: Any = None,
    events: dict[str, Any] | None = None,
    solver: Any = "dopri8",
    rtol: Any = 1e-8,
    max_steps: int = 100_000,
    progress: bool = False,
) -> Trajectory:
    """dθ/dt = −∇L(θ) from theta0 in training time, with the standard events.

    Events (theory.md, section 8; an event that did not happen is absent): `escape`, the blow-up
    time read off the run as t₁ + 1/(κ‖W_2(t₁)‖), t₁ the first time ‖W_2‖ reaches √ε; `plateau`,
    where ‖∇_outer L‖ falls to a twentieth of its largest value, if that is before the onset;
    `onset` of stage 2, where the largest relative rate of W_Q, W_K exceeds that of W_V, W_1, W_2;
    `onset_norm`, where ‖W_Q‖ has doubled.

    Args:
        t1: end; by default onset + (onset − escape), at most ten times the escape time.
        times: where to save; by default every accepted step.
        events: further events, by other names than those of the standard ones.
        solver, rtol, max_steps, progress: as in `integrate`.

    Returns:
        A `Trajectory` on the training clock. `stats` holds `conserved_drift`, the drift of the
        conserved matrices (theory.md, section 3) relative to their size, and `energy_drift`, how
        far the fall of the loss is from ∫‖∇L‖² dt, relative to that; where one of them exceeds a
        thousand tolerances the run is not `trusted`.
    """
    _check(net, task, theta0)
    dtype = theta0.W_Q.dtype
    kappa, scale = net.kappa(task).astype(dtype), theta0.scale
    standard = standard_events(theta0)
    for name in events or {}:
        if name in standard:
            raise checks.fail("events", f"not use the names {', '.join(standard)}", name)
    named = {**standard, **(events or {})}
    tail = 1 / (kappa * jnp.sqrt(scale))
    end = _end(t1, named, tail, kappa, scale)
    trajectory = solve.run(
        Full(net, task),
        theta0,
        jnp.zeros((), dtype),
        end,
        times=solve.save_times(times, jnp.zeros((), dtype), _latest(end)),
        events=named,
        solver=solver,
        rtol=rtol,
        max_steps=max_steps,
        progress=progress,
        integrand=power,
    )
    losses = _losses(net, task, theta0, trajectory.final)
    return _finished(trajectory, tail, jnp.asarray(rtol, dtype), losses)


@eqx.filter_jit
def _losses(net: OneLayerTransformer, task: Task, *thetas: Parameters) -> Array:
    return jnp.stack([net.loss(theta, task) for theta in thetas])


def _check(net: Any, task: Any, theta0: Any) -> None:
    for name, value, kind in (
        ("net", net, OneLayerTransformer),
        ("task", task, Task),
        ("theta0", theta0, Parameters),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}; got {checks.shown(value)}")
    checks.same_size("axis 0 of W_Q", theta0.width, "a token of the task", task.width)
    if theta0.W_Q.dtype == jnp.float32:
        warnings.warn(
            "simulating in float32: escape and onset times lose accuracy; add "
            "jax.config.update('jax_enable_x64', True) before the first JAX call",
            stacklevel=3,
        )


def _latest(end: Any) -> Any:
    """The largest time at which the run can end, if that is known."""
    return end.t1 if isinstance(end, solve.FixedEnd) else jnp.full_like(end.tail, jnp.inf)


def _end(t1: Any, events: dict[str, Event], tail: Array, kappa: Array, scale: Array) -> Any:
    if t1 is not None:
        return solve.FixedEnd(jnp.asarray(checks.positive("t1", t1), tail.dtype))
    names = sorted(events)
    escape, onset = names.index("escape"), names.index("onset")
    return TwoStageEnd(escape, onset, tail, 1 / kappa, PATIENCE / (kappa * scale))


def _finished(run: Trajectory, tail: Array, rtol: Array, losses: Array) -> Trajectory:
    """The run with its escape time read off, its drift measured and its outcome named."""
    traced = checks.is_traced(run)
    times, crossings = dict(run.event_times), dict(run.crossings)
    if "escape" in times:
        times["escape"] = times["escape"] + (tail if traced else float(tail))
    if not traced and times.get("plateau", 0) > times.get("onset", np.inf):
        del times["plateau"], crossings["plateau"]
    drift, balance = largest_drift(run.states), _energy_drift(run.stats["integral"], losses)
    stats = {name: value for name, value in run.stats.items() if name != "integral"}
    measured = {"conserved_drift": drift, "energy_drift": balance}
    stats |= measured if traced else {name: float(x) for name, x in measured.items()}
    tiny = jnp.finfo(rtol.dtype).tiny
    rounding = (
        ROUNDING * jnp.finfo(rtol.dtype).eps / jnp.maximum(jnp.abs(losses[0] - losses[1]), tiny)
    )
    trusted: Any = (drift <= DRIFT_CLASS * rtol) & (balance <= DRIFT_CLASS * rtol + rounding)
    if not traced:
        times = dict(sorted(times.items(), key=lambda item: item[1]))
        trusted = bool(trusted) and not run.outcome.failed
        if _stands_still(run):
            run = eqx.tree_at(lambda r: r.outcome, run, Outcome.of("steady_state"))
    return eqx.tree_at(
        lambda r: (r.event_times, r.crossings, r.stats, r.trusted),
        run,
        (times, crossings, stats, trusted),
        is_leaf=lambda x: isinstance(x, dict) or x is None or isinstance(x, bool),
    )


def _energy_drift(work: Any, losses: Array) -> Array:
    """|L(0) − L(t) − ∫‖∇L‖² dt| over ∫‖∇L‖² dt."""
    work = jnp.asarray(work, losses.dtype)
    return jnp.abs(losses[0] - losses[1] - work) / jnp.where(work > 0, work, 1)


def _stands_still(run: Trajectory) -> bool:
    """Whether the run reached its end at an exact equilibrium, such as zero weights."""
    speeds = [float(jnp.max(jnp.abs(x))) for x in jax.tree.leaves(run.rates)]
    return run.outcome == "reached_end" and max(speeds) == 0
