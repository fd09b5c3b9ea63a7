"""A trajectory as an `xarray.Dataset`, and in a netCDF file."""

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from flowsim import checks, storage
from flowsim.outcome import NAMES, Outcome
from flowsim.trajectory import structure
from flowsim.trajectory.record import CLOCKS, Trajectory, as_leaf

FORMAT = "flowsim trajectory 1"
CLOCK_NAMES = {
    "training": "training time t",
    "rescaled": "rescaled time κεt",
    "steps": "optimiser steps",
}
RATE = "rate_"


def to_xarray(run: Trajectory, metadata: Mapping[str, Any] | None = None) -> Any:
    """Variables over time with named axes; what is not an array is JSON in the attributes.

    Attributes: `clock`, `outcome`, and as JSON `event_times`, `trusted`, `stats`, `structure` and
    `metadata` (seed, scale, tolerances, versions, configuration: what the caller adds).
    """
    import xarray

    run = run.trim()
    described = structure.describe(run.states)
    values = structure.variables(run.states, described)
    axes = structure.dimensions(described, {k: v.shape for k, v in values.items()})
    data = {k: (("time", *axes[k]), _stored(v)) for k, v in values.items()}
    if run.rates is not None:
        rates = structure.variables(run.rates, described)
        data |= {RATE + k: (("time", *axes[k]), _stored(v)) for k, v in rates.items()}
    times = ("time", np.asarray(run.times), _time_attributes(run.clock))
    return xarray.Dataset(data, {"time": times}, _attributes(run, described, metadata))


def save(run: Trajectory, path: str | os.PathLike, metadata: Mapping[str, Any] | None) -> None:
    """Write `to_xarray` as netCDF, whole or not at all."""
    storage.write_netcdf(path, to_xarray(run, metadata))


def load(path: str | os.PathLike) -> Trajectory:
    """The trajectory that `save` wrote, bit for bit.

    Raises:
        ValueError: a file that is missing, damaged or of another origin.
    """
    dataset = storage.read_netcdf(path)
    with storage.reading_errors("path", path, FORMAT):
        return _from_dataset(dataset)


def _stored(value: np.ndarray) -> np.ndarray:
    """netCDF has no booleans."""
    return value.astype(np.int8) if value.dtype == np.bool_ else value


def _time_attributes(clock: str) -> dict[str, str]:
    return {"long_name": CLOCK_NAMES[clock], "units": "1", "clock": clock}


def _attributes(
    run: Trajectory, described: Mapping[str, Any], metadata: Mapping[str, Any] | None
) -> dict[str, str]:
    entries = {
        "event_times": list(run.event_times.items()),
        "trusted": run.trusted,
        "stats": {key: _spelled(value) for key, value in run.stats.items()},
        "structure": described,
        "metadata": metadata or {},
    }
    text = {key: storage.json_text(value, indent=None) for key, value in entries.items()}
    has_rates = "false" if run.rates is None else "true"
    return {
        "format": FORMAT,
        "clock": run.clock,
        "outcome": str(run.outcome),
        "has_rates": has_rates,
    } | text


def _spelled(value: Any) -> Any:
    """JSON has no NaN or infinity: those stand there as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _read_number(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) and set(value) == {"float"} else value


def _from_dataset(dataset: Any) -> Trajectory:
    attributes = dataset.attrs
    if attributes.get("format") != FORMAT:
        raise ValueError(f"its format attribute is {checks.shown(attributes.get('format'))}")
    described = json.loads(attributes["structure"])
    names = list(structure.leaves(described))
    states = structure.build(described, {x["name"]: _leaf(dataset, x) for x in names})
    rates = None
    if json.loads(attributes["has_rates"]):
        rates = structure.build(described, {x["name"]: _leaf(dataset, x, RATE) for x in names})
    return Trajectory(
        as_leaf(np.asarray(dataset["time"].values)),
        states,
        Outcome.of(checks.choice("outcome", attributes["outcome"], NAMES)),
        rates=rates,
        event_times={str(key): float(t) for key, t in json.loads(attributes["event_times"])},
        trusted=bool(json.loads(attributes["trusted"])),
        stats={k: _read_number(v) for k, v in json.loads(attributes["stats"]).items()},
        clock=checks.choice("clock", attributes["clock"], CLOCKS),
    )


def _leaf(dataset: Any, described: Mapping[str, Any], prefix: str = "") -> Any:
    stored = np.asarray(dataset[prefix + described["name"]].values)
    dtype = np.dtype(described["dtype"])
    if _stored(np.zeros(1, dtype)).dtype != stored.dtype:
        raise ValueError(f"{described['name']} is stored as {stored.dtype}, not {dtype}")
    return as_leaf(stored.astype(dtype))
