"""`flowsim compare`: gradient descent and SGD against the flow, over learning rates."""

import argparse
from typing import Any

from flowsim import storage
from flowsim.cli import settings
from flowsim.outcome import FAILURES

EXAMPLE = "Example: flowsim compare --task gaussian --scale 1e-2 --rates 0.1,0.2,0.4 --json"
#: Numbers with commas between them.
LISTS = {"rates": float, "batches": int}
FLAGS = settings.START | {
    "rates": (str, "learning rates η,η,… (default: by T*)"),
    "batches": (str, "batch sizes B,B,… (default: by n)"),
}


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "compare",
        help="gradient descent against the flow",
        description=__doc__,
        epilog=EXAMPLE,
    )
    settings.add(parser, "flowsim.experiments.descent_comparison:DescentStudy", FLAGS)
    settings.add_results(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Compare and print the tables."""
    from flowsim.experiments import descent_comparison

    for name, kind in LISTS.items():
        setattr(options, name, settings.numbers(name, getattr(options, name), kind))
    config = settings.resolved(options)
    summary = descent_comparison.run(config, options.out, overwrite=options.overwrite)
    print(storage.json_text(summary) if options.json else text(summary, options.out))
    return int(summary["outcome"] in FAILURES)


def text(summary: dict[str, Any], out: str | None) -> str:
    """The tables for a person."""
    from flowsim.report import markdown_table

    slopes = {name: "—" if x is None else f"{x:.3f}" for name, x in summary["slopes"].items()}
    lines = [
        f"task {summary['task']}, scale {summary['scale']:g}, seed {summary['seed']}: errors at "
        f"t = {summary['time']:.6g}, T* = {summary['blow_up_time']:.6g}",
        f"slope of the error: {slopes['descent']} from the flow, {slopes['modified']} from the "
        "modified flow",
        "",
        markdown_table(summary["rates"]),
        "",
        markdown_table(summary["batches"]),
        *(f"untrusted {why}" for why in summary["untrusted_because"]),
    ]
    return "\n".join([*lines, f"results   {out}"] if out else lines)
