"""`flowsim seeds`: predicted against simulated blow-up of many starts, over scales."""

import argparse
from typing import Any

from flowsim import storage
from flowsim.cli import settings

EXAMPLE = "Example: flowsim seeds --task gaussian --count 4 --scales 1e-2,1e-3 --json"
FLAGS = {name: flag for name, flag in settings.START.items() if name != "scale"} | {
    "count": (int, "number of starts (default 8)"),
    "scales": (str, "scales ε,ε,… of the starts (default 1e-2,1e-3)"),
}


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "seeds",
        help="predicted against simulated blow-up of many starts",
        description=__doc__,
        epilog=EXAMPLE,
    )
    settings.add(parser, "flowsim.experiments.seeds:SeedStudy", FLAGS)
    settings.add_results(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run all and print a line a scale; members that fail are counted, not an error."""
    from flowsim.experiments import seeds

    options.scales = settings.numbers("scales", options.scales, float)
    summary = seeds.run(settings.resolved(options), options.out, overwrite=options.overwrite)
    print(storage.json_text(summary) if options.json else text(summary, options.out))
    return 0


def text(summary: dict[str, Any], out: str | None) -> str:
    """The summary for a person."""
    lines = [f"task {summary['task']}, {summary['count']} starts, seed {summary['seed']}"]
    for row in summary["scales"]:
        outcomes = ", ".join(f"{count} {name}" for name, count in row["outcomes"].items())
        lines.append(
            f"scale {row['scale']:g}: T·ε {row['predicted_times_scale']:.6g}; {row['passed']} "
            f"within {row['tolerance']:g} of the prediction, median difference "
            f"{row['median_relative_error']:.2g}; {outcomes}; {row['untrusted']} untrusted"
        )
    return "\n".join(lines if out is None else [*lines, f"results   {out}"])
