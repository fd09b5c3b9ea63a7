"""A census: blow-up times of very many starts, with summary, netCDF and figures."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flowsim import checks, storage
from flowsim.blow_up.verdict import NAMES
from flowsim.ensemble import shards
from flowsim.ensemble.mean_field import mean_field_limit
from flowsim.ensemble.members import Members
from flowsim.ensemble.running import ensemble, open_ensemble
from flowsim.ensemble.series import ARRAYS_A_LANE
from flowsim.ensemble.sources import (
    GaussianChains,
    GaussianMatrices,
    GivenWeights,
    Source,
    shard_size,
)
from flowsim.ensemble.summary import summarise

SOURCES = ("chains", "matrices")


@dataclasses.dataclass(frozen=True)
class Census:
    """Members and what they are members of; times belong to the unit-rate flow."""

    members: Members
    configuration: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        """`summarise`, the configuration, and T* √h beside its mean-field limit where h = m."""
        found = {**self.configuration, **summarise(self.members)}
        h, m = self.configuration["width"], self.configuration["hidden_width"]
        if h == m and self.configuration["source"] != "given":
            found["normalised_median"] = found["median"] * np.sqrt(h)
            found["mean_field_limit"] = mean_field_limit()
        return found

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` along `member`."""
        import xarray

        import flowsim

        members = self.members
        units = {"long_name": "blow-up time of the unit-rate flow; infinite: none was found"}
        verdict = {"flag_values": np.arange(len(NAMES), dtype=np.int8)}
        dataset = xarray.Dataset(
            {
                "time": ("member", members.time, units),
                "lower": ("member", members.lower, {"long_name": "T* is at least this"}),
                "verdict": (
                    "member",
                    members.verdict,
                    verdict | {"flag_meanings": " ".join(NAMES)},
                ),
                "energy": ("member", members.energy, {"long_name": "E = W_v W_1 W_2 at the start"}),
                "steps": ("member", members.steps, {"long_name": "Taylor steps"}),
            },
            coords={"member": np.arange(len(members))},
        )
        dataset.attrs = dict(self.configuration) | {
            "clock": "unit rate",
            "flowsim": flowsim.__version__,
            "jax": jax.__version__,
        }
        return dataset

    def save(self, path: str | Path) -> None:
        """Write it as netCDF, whole or not at all."""
        storage.write_netcdf(path, self.to_xarray())


@dataclasses.dataclass(frozen=True)
class Starts:
    """The arguments of `census` that a configuration may hold, or those of `width_scaling`, which
    are `widths`, `count` and `seed` alone."""

    width: int | None = None
    count: int | None = None
    hidden_width: int | None = None
    seed: int = 0
    source: str = "chains"
    lanes: int | None = None
    shard: int | None = None
    widths: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self) if self.widths is not None else ():
            value = getattr(self, field.name)
            if field.name not in ("widths", "count", "seed") and value != field.default:
                raise checks.fail(field.name, "not be given together with widths", value)


def census(
    width: int | None = None,
    count: int | None = None,
    *,
    hidden_width: int | None = None,
    seed: int = 0,
    source: str = "chains",
    weights: tuple[Any, Any, Any] | None = None,
    lanes: int | None = None,
    out: str | Path | None = None,
    shard: int | None = None,
    notice: Callable[[int], Any] = lambda members: None,
) -> Census | None:
    """Blow-up times of `count` starts, in the time of the unit-rate flow.

    Args:
        width, hidden_width: h and m of unit Gaussian weights; m is h unless given.
        seed: member i draws from fold_in(key(seed), i), whatever the count or the devices.
        source: "chains" (no matrices, O(h) memory) or "matrices" (as `flowsim blowup --width`).
        weights: instead of Gaussian starts, W_v (count, h), W_1 (count, h, m), W_2 (count, m).
        lanes: members that one device works on at once; by default what its cache holds.
        out: folder for shards, from which an interrupted census goes on, and at last for
            `summary.json`, `census.nc` and figures. Several processes may share it.
        shard: members in one shard.
        notice: called with the number of members of each shard that is done.

    Returns:
        The census; None for a process that leaves shards of others to wait for.

    Raises:
        ValueError: bad arguments, or a folder that holds another census (it says where they
            differ). A damaged shard is a warning; it is computed again.
    """
    checks.double_precision("census")
    chosen = source_of(width, count, hidden_width, seed, source, weights, lanes)
    if isinstance(chosen, GivenWeights):
        count = len(chosen.W_v) if count is None else checks.integer("count", count)
        if count > len(chosen.W_v):
            raise checks.fail("count", f"be at most the {len(chosen.W_v)} given starts", count)
    count = checks.integer("count", count)
    folder = None if out is None else storage.writing.usable_path("out", out)
    chosen, size = _as_before(chosen, folder, lanes, shard, count)
    with contextlib.ExitStack() as stack:
        if folder is not None:
            stack.enter_context(open_ensemble(folder, chosen, count, size))
        members = ensemble(chosen, count, folder=folder, size=size, notice=notice)
        if members is None:
            return None
        found = Census(members, {**chosen.identity, "shard_size": size})
        if folder is not None and not storage.is_finished(folder):
            _finish(found, folder)
        return found


def source_of(
    width: int | None,
    count: int | None,
    hidden_width: int | None,
    seed: int,
    source: str,
    weights: tuple[Any, Any, Any] | None,
    lanes: int | None,
) -> Source:
    """The source of starts, its arguments checked."""
    if weights is not None:
        if width is not None:
            raise checks.fail("width", "not be given together with weights", width)
        return GivenWeights.of(*weights)
    h = checks.integer("width", width)
    checks.integer("count", count)
    m = h if hidden_width is None else checks.integer("hidden_width", hidden_width)
    seed = checks.seed("seed", seed)
    if checks.choice("source", source, SOURCES) == "matrices":
        return GaussianMatrices(checks.width("width", h), checks.width("hidden_width", m), seed)
    for name, n in (("width", h), ("hidden_width", m)):
        checks.fitting(name, n, ARRAYS_A_LANE * n, "one start's Taylor series")
    return GaussianChains(h, m, seed, None if lanes is None else checks.integer("lanes", lanes))


def _as_before(
    source: Source, folder: Path | None, lanes: int | None, shard: int | None, count: int
) -> tuple[Source, int]:
    """The source and the size of a shard; what was not asked for is as the folder has it."""
    before = (shards.stored(folder) if folder is not None else None) or {}
    there = {
        name: checks.integer(f"{name} in {shards.IDENTITY}", before[name])
        for name in ("lanes", "shard_size")
        if name in before
    }
    if isinstance(source, GaussianChains) and lanes is None and "lanes" in there:
        source = dataclasses.replace(source, lanes=there["lanes"])
    if shard is not None:
        size = checks.integer("shard", shard)
        return source, -(-size // source.block) * source.block
    return source, there.get("shard_size", shard_size(source, count))


def _finish(found: Census, folder: Path) -> None:
    """netCDF, figures, and last of all the summary."""
    from flowsim.report import save_figure
    from flowsim.report.figures import ensembles

    with warnings.catch_warnings():
        storage.write_netcdf(folder / "census.nc", found.to_xarray(), name="out")
    save_figure(ensembles.survival_curve(found.members), folder / "figures", "survival")
    save_figure(ensembles.energy_sign(found.members), folder / "figures", "energy_sign")
    storage.write_json(folder / storage.SUMMARY, found.summary())
