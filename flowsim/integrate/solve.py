"""`integrate`: the general door to adaptive integration."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim import checks
from flowsim.integrate import blocks, stepper
from flowsim.integrate.arguments import check_condition, check_rate, initial_state, same_structure
from flowsim.integrate.events import Event
from flowsim.integrate.solvers import solver_of
from flowsim.trajectory import Trajectory


class FixedEnd(eqx.Module):
    """The run ends at t1, whatever happens."""

    t1: Any

    def __call__(self, first: Any) -> Any:
        """The end time, given the first time of each event."""
        return self.t1


def integrate(
    flow: Any,
    y0: Any,
    t1: Any,
    *,
    t0: Any = 0.0,
    args: Any = None,
    times: Any = None,
    events: Any = None,
    solver: Any = "dopri8",
    rtol: Any = 1e-8,
    atol: Any = None,
    max_steps: int = 100_000,
    progress: bool = False,
) -> Trajectory:
    """The solution of ẏ = rate(t, y, args) from t0 to t1 > t0, with events.

    Args:
        flow: an object with `.rate(t, y, args)`, or such a function itself.
        y0: initial state, any pytree of real arrays.
        times: where to save, increasing, in [t0, t1]; by default every accepted step is saved
            (under `jit` or `vmap`: the start and the end).
        events: `{name: Event}`; see `Event`.
        solver: "tsit5", "dopri5", "dopri8", "kvaerno5" (stiff), or an adaptive diffrax solver.
        rtol: tolerance of the error of one step against the size of each entry.
        atol: absolute tolerance, one number or one for each leaf; by default `rtol` times a
            thousandth of the largest size (root mean square) that the leaf has had so far.
        max_steps: attempted steps, at most.
        progress: a bar on standard error, shown on a terminal only.

    Returns:
        A `Trajectory`; how it ended is its `outcome`. A run that stops early holds the saved times
        that it reached and its last state as one more row. Under a JAX transformation its rows are
        padded (`count` are valid) and an event that did not happen has time infinity.

    Raises:
        ValueError, TypeError: arguments that break a rule; the message names them.
    """
    y0 = initial_state("y0", y0)
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    t0 = jnp.asarray(checks.number("t0", t0), dtype)
    if not checks.is_traced(t0) and not np.isfinite(t0):
        raise checks.fail("t0", "be finite", float(t0))
    t1 = jnp.asarray(checks.number("t1", t1), dtype)
    if not checks.is_traced(t0, t1) and not (t1 > t0 and np.isfinite(t1)):
        raise checks.fail("t1", f"be finite and larger than t0 = {float(t0):g}", float(t1))
    return run(
        flow,
        y0,
        t0,
        FixedEnd(t1),
        args=args,
        times=save_times(times, t0, t1),
        events=events,
        solver=solver,
        rtol=rtol,
        atol=atol,
        max_steps=max_steps,
        progress=progress,
    )


def run(
    flow: Any,
    y0: Any,
    t0: Any,
    end: Callable,
    *,
    args: Any = None,
    times: Any = None,
    events: Any = None,
    solver: Any = "dopri8",
    rtol: Any = 1e-8,
    atol: Any = None,
    max_steps: Any = 100_000,
    progress: bool = False,
    integrand: Callable | None = None,
) -> Trajectory:
    """`integrate` to an end that may depend on events: `end(first_times)`, checked at each step.

    `integrand(t, y, ẏ)`, a scalar, is integrated along the run into `stats["integral"]`.
    """
    events = _events(events)
    rtol = jnp.asarray(checks.between("rtol", rtol, 1e-14, 1e-1), t0.dtype)
    solver = solver_of(solver, rtol)
    atol = _tolerance(atol, y0)
    if not checks.is_traced(max_steps):
        max_steps = checks.integer("max_steps", max_steps)
    rate = getattr(flow, "rate", flow)
    if not callable(rate):
        raise TypeError(f"flow must be callable or have a rate; got {checks.shown(flow)}")
    args = jax.tree.map(lambda x: jnp.asarray(x) if eqx.is_array_like(x) else x, args)
    check_rate("flow", rate, t0, y0, args)
    for name, event in events.items():
        extra = (y0,) if event.with_rate else ()
        check_condition(f"events[{name!r}]", event.condition, t0, y0, args, *extra)
    budget = jnp.asarray(max_steps, jnp.int32)
    problem = stepper.Problem(rate, solver, args, events, end, times, rtol, atol, budget, integrand)
    if checks.is_traced(problem, y0, t0):
        return blocks.run_traced(problem, t0, y0)
    return blocks.run_blocks(problem, t0, y0, progress)


def save_times(times: Any, t0: Any, t1: Any) -> Any:
    """Times at which to save, increasing and in [t0, t1], or None."""
    if times is None:
        return None
    times = checks.array("times", times, ndim=1).astype(t0.dtype)
    if checks.is_traced(times, t0, t1):
        return times
    if np.any(np.diff(times) <= 0):
        raise checks.fail("times", "increase strictly", times)
    if times[0] < t0 or times[-1] > t1:
        raise checks.fail("times", f"lie in [{float(t0):g}, {float(t1):g}]", times)
    return times


def _events(events: Any) -> dict[str, Event]:
    if events is not None and not isinstance(events, dict):
        raise TypeError(f"events must be a dict of names and events; got {checks.shown(events)}")
    events = events or {}
    for name, event in events.items():
        if not isinstance(event, Event):
            raise TypeError(f"events[{name!r}] must be an Event; got {checks.shown(event)}")
    return dict(sorted(events.items()))


def _tolerance(atol: Any, y0: Any) -> Any:
    """One absolute tolerance for each leaf, or None for the default."""
    if atol is None:
        return None
    if not same_structure(atol, y0):
        atol = jax.tree.map(lambda _: checks.number("atol", atol), y0)
    for value in jax.tree.leaves(atol):
        if not checks.is_traced(value) and not np.all(np.asarray(value) >= 0):
            raise checks.fail("atol", "not be negative", value)
    return jax.tree.map(lambda a, x: jnp.asarray(a, x.dtype), atol, y0)
