"""Result folders: one with a `summary.json` is finished, any other may be started anew."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from flowsim import checks
from flowsim.storage.writing import TEMPORARY, temporary_path, unwritable, usable_path

#: Written last: it makes a folder a finished run.
SUMMARY = "summary.json"


def is_finished(path: str | os.PathLike) -> bool:
    """Whether the folder holds a run that wrote its summary."""
    return os.path.lexists(Path(path) / SUMMARY)


@contextmanager
def open_folder(
    path: str | os.PathLike,
    overwrite: bool = False,
    *,
    names: Iterable[str] = (),
    name: str = "out",
) -> Iterator[Path]:
    """The folder, ready for a new run's files, and that run's alone until the block ends.

    It is created where it is missing. With `overwrite` the summary of an earlier run goes first,
    so that the folder counts as unfinished until the new summary stands. Temporaries that a killed
    run left go too; other files stay, unless they are in `names`.

    Args:
        names: files of an earlier start to remove (relative to the folder), for those that the
            new run may not write again.

    Raises:
        ValueError: the folder holds a finished run and `overwrite` is false; another run is at
            work in it; the place is not a folder or cannot be written.
    """
    folder = usable_path(name, path)
    with ExitStack() as stack:
        try:
            if folder.exists() and not folder.is_dir():
                raise checks.fail(name, "be a folder", str(path))
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(claimed(folder, name))
            if is_finished(folder) and not overwrite:
                rule = f"be a folder without a {SUMMARY} (overwrite replaces a finished run)"
                raise checks.fail(name, rule, str(path))
            _try_writing(folder)
            for old in [folder / SUMMARY, *(folder / known for known in names)]:
                old.unlink(missing_ok=True)
            remove_temporaries(folder)
        except OSError as error:
            raise unwritable(name, folder, error) from error
        yield folder


@contextmanager
def claimed(folder: Path, name: str = "out") -> Iterator[None]:
    """Keep other runs out of a folder that exists, until the block or the process ends.

    The system forgets the claim of a process that is killed. Where the file system knows no locks,
    nothing is kept out.

    Raises:
        ValueError: another run is at work in the folder.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            _lock(descriptor, folder, name)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, name: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        rule = "be a folder in which no other run is at work"
        raise checks.fail(name, rule, str(folder)) from error


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
