"""Figures and tables on disk: each file is whole or absent."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from flowsim import storage
from flowsim.report.style import figure_style
from flowsim.storage.writing import unwritable

FORMATS = ("png", "pdf")
#: No dates or versions inside, so that the same figure gives the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": "flowsim", "Producer": None},
    "svg": {"Date": None, "Creator": "flowsim"},
}


def save_figure(
    figure: Any, folder: str | os.PathLike, name: str, formats: tuple[str, ...] = FORMATS
) -> list[Path]:
    """Write a figure as PNG and PDF, `folder/name.png` and `folder/name.pdf`.

    Args:
        figure: a figure, an axes, or an array of axes of one figure.
        folder: made if it does not exist.
    Returns:
        The paths written.
    """
    folder = made_folder(folder)
    figure = figure_of(figure)
    written = []
    with figure_style():
        for kind in formats:
            path = folder / f"{name}.{kind}"
            with storage.whole_file(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=METADATA.get(kind))
            written.append(path)
    return written


def made_folder(folder: str | os.PathLike) -> Path:
    """The folder, made if it does not exist."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable("folder", folder, error) from error
    return folder


def figure_of(drawn: Any) -> Any:
    """The figure of a figure, an axes, or an array of axes."""
    if isinstance(drawn, np.ndarray | list | tuple):
        drawn = np.asarray(drawn, dtype=object).ravel()[0]
    return drawn.get_figure(root=True) if hasattr(drawn, "get_figure") else drawn
