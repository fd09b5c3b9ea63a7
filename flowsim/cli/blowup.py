"""`flowsim blowup`: blow-up times of the leading-order flow, with bounds and a verdict."""

import argparse
from typing import Any

from flowsim import storage
from flowsim.cli import settings

EXAMPLE = "Example: flowsim blowup --width 16 --count 3 --seed 1 --json"
FLAGS: dict[str, tuple[type, str]] = {
    "input": (str, ".npz or .json with W_v, W_1 and W_2"),
    "width": (int, "instead: h = m of unit Gaussian weights"),
    "count": (int, "number of Gaussian starts (default 1)"),
    "seed": (int, "seed of the Gaussian starts (default 0)"),
}


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "blowup",
        help="blow-up times of the leading-order flow",
        description=__doc__,
        epilog=EXAMPLE,
    )
    settings.add(parser, "flowsim.experiments.cases:Cases", FLAGS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Compute and print; an undecided verdict is an answer too."""
    from flowsim.experiments import cases

    found = cases.solve(settings.resolved(options))
    if options.json:
        print(storage.json_text(found[0] if len(found) == 1 else {"cases": found}))
    else:
        print("\n".join(map(text, found)))
    return 0


def text(found: dict[str, Any]) -> str:
    """One result, for a person."""
    return (
        f"T* = {found['blow_up_time']!r} in [{found['lower']!r}, {found['upper']!r}], "
        f"{found['verdict']}, E = {found['energy']:.6g}, {found['steps']} steps"
    )
