"""Result folders: one with a `summary.json` is finished, any other may be started anew."""

import os
from collections.abc import Iterable
from pathlib import Path

from flowsim import checks
from flowsim.storage.writing import TEMPORARY, temporary_path, unwritable, usable_path

#: Written last: it makes a folder a finished run.
SUMMARY = "summary.json"


def is_finished(path: str | os.PathLike) -> bool:
    """Whether the folder holds a run that wrote its summary."""
    return os.path.lexists(Path(path) / SUMMARY)


def open_folder(
    path: str | os.PathLike,
    overwrite: bool = False,
    *,
    names: Iterable[str] = (),
    name: str = "out",
) -> Path:
    """The folder, ready for a new run's files.

    It is created where it is missing. With `overwrite` the summary of an earlier run goes first,
    so that the folder counts as unfinished until the new summary stands. Temporaries that a killed
    run left go too; other files stay, unless they are in `names`.

    Args:
        names: files of an earlier start to remove (relative to the folder), for those that the
            new run may not write again.

    Raises:
        ValueError: the folder holds a finished run and `overwrite` is false; the place is not a
            folder or cannot be written.
    """
    folder = usable_path(name, path)
    try:
        if folder.exists() and not folder.is_dir():
            raise checks.fail(name, "be a folder", str(path))
        if is_finished(folder) and not overwrite:
            rule = f"be a folder without a {SUMMARY} (overwrite replaces a finished run)"
            raise checks.fail(name, rule, str(path))
        folder.mkdir(parents=True, exist_ok=True)
        _try_writing(folder)
        for old in [folder / SUMMARY, *(folder / known for known in names)]:
            old.unlink(missing_ok=True)
        remove_temporaries(folder)
    except OSError as error:
        raise unwritable(name, folder, error) from error
    return folder


def _try_writing(folder: Path) -> None:
    """Find out now, not after minutes of work, whether files can be made."""
    probe = temporary_path(folder)
    probe.touch(exist_ok=False)
    probe.unlink()


def remove_temporaries(folder: Path) -> None:
    """Remove what a killed process left half-written in the folder and in the folders in it."""
    below = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    for place in [folder, *below]:
        for entry in place.iterdir():
            if TEMPORARY.fullmatch(entry.name) and entry.is_file():
                entry.unlink(missing_ok=True)
