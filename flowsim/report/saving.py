"""Figures and tables on disk: each file is whole or absent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    paths = [folder / f"{name}.{kind}" for kind in formats]
    with figure_style(), laid_out(figure):
        for kind, path in zip(formats, paths, strict=True):
            with storage.whole_file(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=METADATA.get(kind))
    return paths


@contextmanager
def laid_out(figure: Any) -> Iterator[None]:
    """Compute the layout once for all that is saved in the block: it takes longer than drawing."""
    engine = figure.get_layout_engine()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


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
