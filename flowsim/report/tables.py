"""Tables of results, as Markdown to read and as CSV to compute with."""

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowsim import storage
from flowsim.report.saving import made_folder

Rows = Sequence[Mapping[str, Any]]
NOTHING = "–"


def columns_of(rows: Rows) -> list[str]:
    """Every key, in the order of first appearance."""
    return list(dict.fromkeys(key for row in rows for key in row))


def markdown_table(rows: Rows, digits: int = 4) -> str:
    """A Markdown table of rows; numbers to so many significant digits and set to the right.

    What a row lacks, `None` and NaN stand as a dash.

    >>> print(markdown_table([{"scale": 0.01, "held": True}, {"scale": 1e-4}]))
    | scale | held |
    |---:|:---|
    | 0.01 | yes |
    | 0.0001 | – |
    """
    columns = columns_of(rows)
    if not columns:
        return ""
    rule = ["---:" if _numeric(rows, key) else ":---" for key in columns]
    lines = [[_escaped(str(key)) for key in columns]]
    lines += [[_cell(row.get(key), digits) for key in columns] for row in rows]
    written = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([written[0], "|" + "|".join(rule) + "|", *written[1:]])


def csv_table(rows: Rows) -> str:
    """A CSV table of rows, numbers in full; what a row lacks, `None` and NaN are empty."""
    text = io.StringIO()
    columns = columns_of(rows)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(row.get(key)) for key in columns] for row in rows)
    return text.getvalue()


def save_table(rows: Rows, folder: str | os.PathLike, name: str, digits: int = 4) -> list[Path]:
    """Write `folder/name.md` and `folder/name.csv`; the folder is made if it does not exist."""
    folder = made_folder(folder)
    paths = [folder / f"{name}.md", folder / f"{name}.csv"]
    storage.write_text(paths[0], markdown_table(rows, digits) + "\n")
    storage.write_text(paths[1], csv_table(rows))
    return paths


def _plain(value: Any) -> Any:
    """A Python value of a scalar; "" for nothing."""
    if isinstance(value, np.generic) or (hasattr(value, "ndim") and value.ndim == 0):
        value = value.item()
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else value


def _cell(value: Any, digits: int) -> str:
    value = _plain(value)
    if value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.{digits}g}" if isinstance(value, float) else _escaped(str(value))


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def _numeric(rows: Rows, key: str) -> bool:
    """Whether all that stands in a column are numbers."""
    values = [value for value in (_plain(row.get(key)) for row in rows) if value != ""]
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )
