"""A task from an .npz file."""

import os
from pathlib import Path

from flowsim import storage
from flowsim.tasks.task import Task


def load(path: str | os.PathLike, *, name: str = "path") -> Task:
    """The task in an .npz file with tokens X (n, s, d) and labels y (n,), −1 or +1.

    Raises:
        ValueError: the file is missing or damaged, lacks X or y, or holds values that `Task`
            refuses.
    """
    found = storage.read_npz(path, name=name)
    missing = [array for array in ("X", "y") if array not in found]
    if missing:
        held = ", ".join(found) or "nothing"
        raise ValueError(
            f"{name} must be an .npz file with X and y; got {str(path)!r} without "
            f"{' and '.join(missing)} (it holds {held[:80]})"
        )
    return Task(found["X"], found["y"], name=Path(path).stem)
