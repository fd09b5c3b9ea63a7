"""Tasks by the words that configurations and the command line use."""

from typing import Any

from flowsim import checks, tasks


def task_of(source: str, width: int) -> tasks.Task:
    """`digits`, `gaussian`, `anchor`, `text:` and the path of a text, or the path of an .npz file
    with X and y (which has its own width)."""
    if source.endswith(".npz"):
        return tasks.load(source, name="task")
    kind, colon, path = source.partition(":")
    if kind == "text" and colon:
        return tasks.text(path, width)
    makers: dict[str, Any] = {
        "digits": tasks.digits,
        "gaussian": tasks.gaussian,
        "anchor": tasks.anchor,
    }
    checks.choice("task", source, (*makers, "text:FILE", "FILE.npz"))
    return makers[source](width=width)
