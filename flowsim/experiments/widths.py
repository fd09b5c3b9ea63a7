"""How blow-up times depend on the width: T* √h of unit Gaussian starts against h = m."""

from pathlib import Path
from typing import Any

from flowsim import checks, storage
from flowsim.ensemble.mean_field import mean_field_limit
from flowsim.ensemble.members import Members
from flowsim.ensemble.summary import quantile
from flowsim.experiments import config as configuration
from flowsim.experiments.census import Census, Starts, census


def width_scaling(
    widths: tuple[int, ...],
    count: int | None,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """A census of `count` starts at each width, and the mean-field limit of T* √h (theory.md,
    section 4), which is computed; with `out` also a folder with a table and the figure."""
    if not widths:
        raise checks.fail("widths", "not be empty", widths)
    for h in widths:
        checks.integer("widths", h)
    count, seed = checks.integer("count", count), checks.seed("seed", seed)
    if out is None:
        return _solved(widths, count, seed)[0]
    with storage.open_folder(out, overwrite=overwrite) as folder:
        from flowsim.report import figures, save_figure, save_table

        configuration.write(folder, Starts(widths=widths, count=count, seed=seed))
        summary, members = _solved(widths, count, seed)
        save_table(summary["widths"], folder, "widths")
        drawn = figures.width_scaling(widths, members, summary["mean_field_limit"])
        save_figure(drawn, folder / "figures", "widths")
        storage.write_json(folder / storage.SUMMARY, summary)
        return summary


def _solved(widths: tuple[int, ...], count: int, seed: int) -> tuple[dict[str, Any], list[Members]]:
    """The summary, and the members at each width."""
    found = [one for h in widths if (one := census(h, count, seed=seed)) is not None]
    rows = [_row(one) for one in found]
    summary = {"count": count, "seed": seed, "mean_field_limit": mean_field_limit()}
    return summary | {"widths": rows}, [one.members for one in found]


def _row(found: Census) -> dict[str, Any]:
    """T* √h: the median with its 95 % interval, and the quartiles."""
    h, members = found.configuration["width"], found.members
    middle, low, high = (time * h**0.5 for time in quantile(members, 0.5))
    return {
        "width": h,
        "median": middle,
        "median_from": low,
        "median_to": high,
        "first_quartile": quantile(members, 0.25)[0] * h**0.5,
        "third_quartile": quantile(members, 0.75)[0] * h**0.5,
        "undecided": members.undecided,
    }
