"""Tasks by the words that configurations and the command line use."""

from flowsim import checks, tasks


def task_of(source: str, width: int) -> tasks.Task:
    """`digits`, `gaussian`, or the path of an .npz file with X and y (which has its own width)."""
    if source.endswith(".npz"):
        return tasks.load(source)
    checks.choice("task", source, ("digits", "gaussian", "FILE.npz"))
    if source == "digits":
        return tasks.digits(width)
    return tasks.gaussian(width=width)
