"""How blow-up times depend on the width: T* √h of unit Gaussian starts against h = m."""

from pathlib import Path
from typing import Any

import numpy as np

from flowsim import checks, storage
from flowsim.ensemble.mean_field import mean_field_limit
from flowsim.experiments.census import Census, census


def width_scaling(
    widths: tuple[int, ...],
    count: int,
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
    folder = None if out is None else storage.open_folder(out, overwrite=overwrite)
    found = [census(h, count, seed=seed) for h in widths]
    summary: dict[str, Any] = {
        "count": count,
        "seed": seed,
        "mean_field_limit": mean_field_limit(),
        "widths": [_row(one) for one in found if one is not None],
    }
    if folder is not None:
        from flowsim.report import figures, save_figure, save_table

        members = [one.members for one in found if one is not None]
        save_table(summary["widths"], folder, "widths")
        drawn = figures.width_scaling(widths, members, summary["mean_field_limit"])
        save_figure(drawn, folder / "figures", "widths")
        storage.write_json(folder / storage.SUMMARY, summary)
    return summary


def _row(found: Census) -> dict[str, Any]:
    h, times = found.configuration["width"], np.sort(found.members.time)
    low, middle, high = (
        float(times[int(p * (times.size - 1))]) * h**0.5 for p in (0.25, 0.5, 0.75)
    )
    undecided = found.members.undecided
    return {"width": h, "median": middle, "low": low, "high": high, "undecided": undecided}
