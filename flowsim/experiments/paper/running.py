"""From names of figures to folders of results."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flowsim import storage
from flowsim.experiments import config as configuration
from flowsim.experiments.paper.finding import Finding
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.registry import WITH_TEXT, chosen

#: How pictures are saved.
FORMATS = ("png", "pdf")


def run(
    name: str,
    lab: Laboratory,
    out: str | Path,
    *,
    overwrite: bool = False,
    notice: Callable[[str], Any] = lambda figure: None,
) -> list[dict[str, Any]]:
    """One figure, or "all", each in a folder of its own below `out`.

    A folder has `summary.json` (claims, whether each held, sizes; written last), the picture as
    PNG and PDF, the table as CSV and Markdown, and `config.toml`. After all of them `out` gets
    `claims.md` and `claims.csv`, one line a claim.

    Args:
        notice: called with the name of a figure before it is made.

    Raises:
        ValueError: an unknown figure, a text that is missing, does not serve or has no use, a
            folder that holds finished results (all are checked before anything is computed or
            written).
    """
    figures = chosen(name, lab.text)
    for key in set(figures) & set(WITH_TEXT):
        WITH_TEXT[key][1](lab)
    root = storage.writing.usable_path("out", out)
    finished_first = sorted(figures, key=lambda key: not storage.is_finished(root / key))
    with contextlib.ExitStack() as stack:
        folders = {
            key: stack.enter_context(storage.open_folder(root / key, overwrite=overwrite))
            for key in finished_first
        }
        storage.remove_temporaries(root)
        summaries = []
        for key, figure in figures.items():
            notice(key)
            started = time.perf_counter()
            finding = figure(lab)
            seconds = time.perf_counter() - started
            summaries.append(write(key, finding, lab, folders[key], seconds))
    if len(figures) > 1:
        from flowsim.report import save_table

        save_table(lines(summaries), root, "claims")
    return summaries


def write(
    key: str, finding: Finding, lab: Laboratory, folder: Path, seconds: float
) -> dict[str, Any]:
    """The files of one figure, and its summary."""
    from flowsim.report import save_figure, save_table

    configuration.write(folder, lab.preset, text=lab.text)
    if finding.picture is not None:
        save_figure(finding.picture, folder, key, FORMATS)
    if finding.rows:
        save_table(finding.rows, folder, key)
    sizes = dataclasses.asdict(lab.preset)
    summary = {"figure": key, **finding.as_dict(), "preset": sizes, "seconds": seconds}
    storage.write_json(folder / storage.SUMMARY, summary)
    return summary


def lines(summaries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line a claim."""
    return [
        {"figure": s["figure"], "claim": c["text"], "held": c["held"]}
        for s in summaries
        for c in s["claims"]
    ]
