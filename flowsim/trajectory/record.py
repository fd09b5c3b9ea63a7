"""`Trajectory`: what a solve, a prediction or a descent leaves behind."""

import os
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim import checks
from flowsim.outcome import Outcome
from flowsim.trajectory.hermite import interpolate

CLOCKS = ("training", "rescaled", "steps")


class Trajectory(eqx.Module):
    """The states of one run at its saved times, with its events and its end.

    It is data: `clock` is static, all else are arrays or numbers that pass through `jit`, `vmap`
    and `grad`. There rows may be padded (`count` says how many are valid), `event_times` holds
    every event in the order of names (infinity: it did not happen) and a leading batch axis may
    stand before all of it; `member(i).trim()` gives one run as the host sees it.

    Attributes:
        times: saved times on the clock, shape (T,).
        states: the states, a pytree whose leaves have time first: `run.states.W_Q[-1]`.
        rates: d(states)/d(time) at the saved times, same structure, or None.
        event_times: name → time of the first crossing, in order of time.
        crossings: name → times of all crossings (the first 64 of each event).
        outcome: how the run ended.
        trusted: False where an invariant drifted beyond what the tolerance allows.
        stats: accepted, rejected, evaluations, seconds and diagnostics, each a number.
        clock: "training" (t), "rescaled" (t̄ = κεt) or "steps" of an optimiser.
        count: number of valid rows, or None when all are.
    """

    times: Any
    states: Any
    rates: Any
    event_times: dict[str, Any]
    crossings: dict[str, Any]
    outcome: Outcome
    trusted: Any
    stats: dict[str, Any]
    count: Any
    clock: str = eqx.field(static=True)

    def __init__(
        self,
        times: Any,
        states: Any,
        outcome: Outcome,
        *,
        rates: Any = None,
        event_times: dict[str, Any] | None = None,
        crossings: dict[str, Any] | None = None,
        trusted: Any = True,
        stats: dict[str, Any] | None = None,
        clock: str = "training",
        count: Any = None,
    ):
        self.times = times if isinstance(times, jax.Array) else np.asarray(times, dtype=float)
        self.states = states
        self.rates = rates
        self.event_times = dict(event_times or {})
        self.crossings = dict(crossings or {})
        self.outcome = outcome
        self.trusted = trusted
        self.stats = dict(stats or {})
        self.count = count
        self.clock = checks.choice("clock", clock, CLOCKS)
        _check_rows(self)

    def __len__(self) -> int:
        """Number of valid rows."""
        if self.count is None or checks.is_traced(self.count):
            return self.times.shape[-1]
        return int(self.count)

    @property
    def final(self) -> Any:
        """The last valid state."""
        last = -1 if self.count is None else self.count - 1
        return jax.tree.map(lambda leaf: leaf[last], self.states)

    def member(self, index: int) -> "Trajectory":
        """One run of a batch."""
        return jax.tree.map(lambda leaf: leaf[index], self)

    def trim(self) -> "Trajectory":
        """Valid rows only, events that happened in order of time, plain Python numbers."""
        single = _single(self)
        rows = len(single)
        cut = {} if single.count is None else {"rows": rows}
        keep = (lambda leaf: leaf[:rows]) if cut else (lambda leaf: leaf)
        return Trajectory(
            keep(single.times),
            jax.tree.map(keep, single.states),
            single.outcome,
            rates=jax.tree.map(keep, single.rates),
            event_times=_that_happened(single.event_times),
            crossings=_all_that_happened(single.crossings),
            trusted=bool(single.trusted),
            stats={name: _plain(value) for name, value in single.stats.items()},
            clock=single.clock,
        )

    def evaluate(self, t: Any) -> Any:
        """The state at time t, or at each of many times (time first), between the saved ones.

        Hermite interpolation of degree 7 through the states and rates at the four nearest saved
        times (cubic through the states alone when there are no rates), in float64; exact at the
        saved times. For use on the host, not under `jit`.

        Raises:
            ValueError: t outside the saved times.
        """
        run = self.trim()
        times, sign, rows = _increasing(run.times)
        query = sign * _query(t, run.times)
        leaves, structure = jax.tree.flatten(run.states)
        values = [np.asarray(leaf, dtype=np.float64)[rows] for leaf in leaves]
        rates = None
        if run.rates is not None:
            rates = [
                sign * np.asarray(x, dtype=np.float64)[rows] for x in jax.tree.leaves(run.rates)
            ]
        found = interpolate(times, values, rates, query.ravel())
        shaped = [
            as_leaf(value.reshape(query.shape + value.shape[1:]).astype(_float_type(leaf)))
            for value, leaf in zip(found, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, shaped)

    def to_xarray(self, metadata: Mapping[str, Any] | None = None) -> Any:
        """An `xarray.Dataset` with named axes (time, token, key, value, hidden for Parameters).

        Args:
            metadata: stored as JSON beside clock, events, outcome and stats.
        """
        from flowsim.trajectory.dataset import to_xarray

        return to_xarray(self, metadata)

    def save(self, path: str | os.PathLike, metadata: Mapping[str, Any] | None = None) -> None:
        """Write a netCDF file, whole or not at all; `Trajectory.load` gives it back bit for bit."""
        from flowsim.trajectory.dataset import save

        save(self, path, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Trajectory":
        """The trajectory in a file that `save` wrote.

        Raises:
            ValueError: the file is missing, damaged, or not a trajectory.
        """
        from flowsim.trajectory.dataset import load

        return load(path)

    def __repr__(self) -> str:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self)):
            return f"Trajectory(traced, rows={self.times.shape[-1]}, clock={self.clock!r})"
        if np.ndim(self.times) != 1:
            return f"Trajectory(batch={self.times.shape[:-1]}, clock={self.clock!r})"
        rows = len(self)
        span = f"{self.times[0]:.6g} to {self.times[rows - 1]:.6g}, " if rows else ""
        events = ", ".join(f"{k} {v:.6g}" for k, v in _that_happened(self.event_times).items())
        return (
            f"Trajectory({rows} rows, {self.clock} time {span}{self.outcome}"
            + (f"; {events}" if events else "")
            + ("" if bool(self.trusted) else "; untrusted")
            + ")"
        )


def as_leaf(value: np.ndarray) -> Any:
    """A JAX array, or the NumPy one where JAX would cut its precision (x64 off)."""
    kept = jax.dtypes.canonicalize_dtype(value.dtype) == value.dtype
    return jnp.asarray(value) if kept else value


def _float_type(leaf: Any) -> Any:
    """The type of interpolated values: the leaf's own where that is floating."""
    dtype = np.asarray(leaf).dtype
    return dtype if jnp.issubdtype(dtype, jnp.floating) else np.float64


def _check_rows(run: Trajectory) -> None:
    if np.ndim(run.times) != 1:
        raise checks.fail("times", "have 1 axis", f"shape {np.shape(run.times)}")
    rows = run.times.shape[0]
    for name, tree in (("states", run.states), ("rates", run.rates)):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            if np.shape(leaf)[:1] != (rows,):
                where = f"{name}{jax.tree_util.keystr(path)}"
                raise checks.fail(where, f"have {rows} rows, one a time", f"shape {np.shape(leaf)}")
    structure: Any = jax.tree.structure(run.rates)
    if run.rates is not None and structure != jax.tree.structure(run.states):
        raise checks.fail("rates", "have the structure of states", structure)


def _single(run: Trajectory) -> Trajectory:
    if checks.is_traced(run):
        raise TypeError(
            "a Trajectory must have values to be trimmed or evaluated; got a traced one"
        )
    if np.ndim(run.times) != 1:
        raise checks.fail(
            "the trajectory", "be of one run (take .member(i))", f"a batch {run.times.shape[:-1]}"
        )
    return run


def _increasing(times: Any) -> tuple[np.ndarray, float, np.ndarray]:
    """Times without repetitions, made to increase; the sign that did it; the rows kept."""
    times = np.asarray(times, dtype=np.float64)
    if times.size == 0:
        raise checks.fail("times", "hold a saved time to evaluate at", "none")
    sign = 1.0 if times[-1] >= times[0] else -1.0
    steps = np.diff(sign * times)
    if not np.all(steps >= 0):
        raise checks.fail("times", "run one way to be evaluated between", times)
    rows = np.flatnonzero(np.append(steps > 0, True))
    return sign * times[rows], sign, rows


def _query(t: Any, times: Any) -> np.ndarray:
    """The times asked for, inside the record."""
    query = np.asarray(checks.array("t", t), dtype=np.float64)
    low, high = sorted((float(times[0]), float(times[-1])))
    outside = query[(query < low) | (query > high)]
    if outside.size:
        raise checks.fail("t", f"lie in the saved times [{low!r}, {high!r}]", float(outside[0]))
    return query


def _that_happened(event_times: dict[str, Any]) -> dict[str, float]:
    """Events at a finite time, in order of time."""
    found = {name: float(t) for name, t in event_times.items() if np.isfinite(t)}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _all_that_happened(crossings: dict[str, Any]) -> dict[str, np.ndarray]:
    """The finite crossing times of each event that happened, sorted."""
    found = {name: np.sort(np.asarray(t)[np.isfinite(t)]) for name, t in crossings.items()}
    return {name: t for name, t in found.items() if t.size}


def _plain(value: Any) -> Any:
    """A Python number for a scalar array."""
    is_array = isinstance(value, np.generic | np.ndarray | jax.Array)
    return value.item() if is_array and np.ndim(value) == 0 else value
