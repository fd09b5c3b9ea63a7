"""Events: where a condition changes sign along a solution.

Conditions are evaluated on the dense output of every accepted step at several points, so that a
double crossing inside one step is seen, unless it falls between two of them (a condition that
turns much faster than the state is better made a part of the state). Each crossing is then located
by bisection on the dense output, to rounding. An event never fires at the start, where nothing has
changed sign yet.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flowsim import checks

#: Sign checks a step, equally spaced, the last at its end.
CHECKS = 8
#: Crossings of one event that are kept; later ones are counted.
KEPT = 64
#: Bisections of one crossing: 2⁻⁵² of a check interval.
BISECTIONS = 52
#: Secant corrections of a crossing with the exact solution.
SECANTS = 2


class Event(eqx.Module):
    """Happens where `condition(t, y, args)`, a real scalar, crosses zero.

    Args:
        condition: a function, or an `eqx.Module` whose arrays are data (no retrace for new ones).
        direction: "up", "down" or "both".
        terminal: whether the run stops there.
        decline: instead of at zero, the event lies where the condition, a positive signal, has
            fallen to this fraction of the largest value that it has had so far.
        with_rate: the condition is called as `condition(t, y, args, rate)`, rate the time
            derivative of the dense output.
    """

    condition: Callable
    direction: str = eqx.field(static=True, default="up")
    terminal: bool = eqx.field(static=True, default=False)
    decline: float | None = eqx.field(static=True, default=None)
    with_rate: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        checks.choice("direction", self.direction, ("up", "down", "both"))
        checks.flag("terminal", self.terminal)
        checks.flag("with_rate", self.with_rate)
        if not callable(self.condition):
            raise TypeError(f"condition must be callable; got {checks.shown(self.condition)}")
        if self.decline is not None:
            checks.between("decline", self.decline, 0.0, 1.0)


class Record(eqx.Module):
    """What is known of all events up to the current time."""

    signals: Float[Array, "events"]
    peaks: Float[Array, "events"]
    times: Float[Array, "events kept"]
    counts: Int[Array, "events"]

    @property
    def first(self) -> Float[Array, "events"]:
        """Time of the first crossing of each event; infinity where there was none."""
        return self.times[:, 0] if self.times.shape[1] else self.times.sum(axis=1)


#: The solution inside one step: time to (state, its time derivative).
Dense = Callable[[Any], tuple[Any, Any]]


def signals(events: dict[str, Event], dense: Dense, t: Any, args: Any, dtype: Any) -> Array:
    """The value of every condition at one time."""
    state, rate = dense(t)
    values = []
    for event in events.values():
        extra = (rate,) if event.with_rate else ()
        values.append(jnp.asarray(event.condition(t, state, args, *extra), dtype))
    return jnp.stack(values) if values else jnp.zeros(0, dtype)


def start(events: dict[str, Event], dense: Dense, t: Any, args: Any, dtype: Any) -> Record:
    """The record at t0."""
    values = signals(events, dense, t, args, dtype)
    times = jnp.full((len(events), KEPT), jnp.inf, dtype)
    return Record(values, values, times, jnp.zeros(len(events), jnp.int32))


def _levels(events: dict[str, Event], peaks: Array) -> Array:
    """What each signal is compared with: zero, or a fraction of its peak."""
    fractions = [0.0 if e.decline is None else e.decline for e in events.values()]
    return jnp.where(np.asarray(fractions) > 0, peaks, 0) * jnp.asarray(fractions, peaks.dtype)


def _crosses(events: dict[str, Event], before: Array, after: Array) -> Bool[Array, "events"]:
    """Sign changes in the direction of each event; a value of zero belongs to the far side."""
    wants_up = np.asarray([e.decline is None and e.direction != "down" for e in events.values()])
    wants_down = np.asarray([e.decline is not None or e.direction != "up" for e in events.values()])
    up = (before < 0) & (after >= 0)
    down = (before > 0) & (after <= 0)
    return (up & wants_up) | (down & wants_down)


def advance(
    events: dict[str, Event],
    record: Record,
    dense: Dense,
    exact: Dense,
    t0: Any,
    t1: Any,
    args: Any,
) -> tuple[Record, Any]:
    """The record after a step from t0 to t1, and where a terminal event stops it (else infinity).

    Crossings are found on the dense output and then corrected with `exact`, which evaluates the
    solution as accurately as the steps.
    """
    dtype = record.signals.dtype
    points = t0 + (t1 - t0) * jnp.arange(CHECKS + 1, dtype=dtype) / CHECKS
    points = points.at[-1].set(t1)
    values = jax.lax.map(lambda t: signals(events, dense, t, args, dtype), points[1:])
    values = _fill_forward(jnp.concatenate([record.signals[None], values]))
    peaks = jax.lax.cummax(jnp.concatenate([record.peaks[None], values[1:]]), axis=0)
    levels = jax.vmap(lambda p: _levels(events, p))(peaks[:-1])
    before, after = values[:-1] - levels, values[1:] - levels
    crossed = jax.vmap(lambda b, a: _crosses(events, b, a))(before, after)

    def locate(carry):
        pending, times, counts = carry
        interval, event = jnp.divmod(jnp.argmax(pending.ravel()), len(events))

        def signal(solution, t):
            return signals(events, solution, t, args, dtype)[event] - levels[interval, event]

        low, high = points[interval], points[interval + 1]
        rising = after[interval, event] > before[interval, event]
        time = _bisect(partial(signal, dense), low, high, rising)
        time = _correct(partial(signal, exact), time, low, high)
        times = times.at[event, counts[event]].set(time, mode="drop")
        return pending.at[interval, event].set(False), times, counts.at[event].add(1)

    carry = crossed, record.times, record.counts
    _, times, counts = jax.lax.while_loop(lambda c: jnp.any(c[0]), locate, carry)
    terminal = np.asarray([e.terminal for e in events.values()])
    stop = jnp.min(jnp.where(terminal, times[:, 0], jnp.inf))
    times = jnp.where(times > stop, jnp.inf, times)
    return Record(values[-1], peaks[-1], times, counts), stop


def _fill_forward(values: Float[Array, "points events"]) -> Float[Array, "points events"]:
    """NaN conditions keep the last value that was a number."""

    def fill(last, value):
        value = jnp.where(jnp.isnan(value), last, value)
        return value, value

    return jax.lax.scan(fill, values[0], values)[1]


def _bisect(function: Callable, low: Any, high: Any, rising: Any) -> Any:
    """A zero of a function of changing sign, to rounding."""

    def halve(_, bracket):
        low, high = bracket
        middle = low + (high - low) / 2
        value = function(middle)
        beyond = jnp.where(rising, value >= 0, value <= 0)
        return jnp.where(beyond, low, middle), jnp.where(beyond, middle, high)

    return jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))[1]


def _correct(exact: Callable, time: Any, low: Any, high: Any) -> Any:
    """A zero of the exact signal by secants, from a zero of the dense output's.

    The first pass only evaluates beside that zero, to have a second point.
    """
    span = (high - low) / 64
    aside = jnp.where(time + span <= high, time + span, time - span)

    def secant(i, carry):
        t, other, other_value = carry
        value = exact(t)
        slope = (value - other_value) / jnp.where(t != other, t - other, 1)
        usable = (t != other) & (slope != 0) & jnp.isfinite(slope)
        closer = jnp.where(usable, t - value / jnp.where(usable, slope, 1), t)
        return jnp.where(i == 0, time, jnp.clip(closer, low, high)), t, value

    start = aside, aside, jnp.zeros_like(time)
    return jax.lax.fori_loop(0, 1 + SECANTS, secant, start)[0]
