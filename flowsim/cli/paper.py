"""`flowsim paper`: the paper's figures, tables and checks, each with its claims and verdicts."""

import argparse
import sys
from typing import Any

from flowsim import storage
from flowsim.cli import settings

EXAMPLE = "Example: flowsim paper fig1b --out my-paper"
FLAGS: dict[str, tuple[type, str]] = {
    "preset": (str, "small (default) or paper"),
    "text": (str, "a UTF-8 text file, for figures that need one"),
}


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "paper",
        help="the paper's figures and checks",
        description=__doc__,
        epilog=EXAMPLE,
    )
    parser.add_argument("figure", metavar="FIGURE", help="a figure's name, all, or list")
    settings.add(parser, "flowsim.experiments.paper.presets:Preset", FLAGS)
    settings.add_results(parser, "flowsim-paper")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Make the figures and print what they claim; a claim that fails is a result, not an error."""
    from flowsim.experiments import config
    from flowsim.experiments.paper import laboratory, presets, registry, running

    if options.figure == "list":
        print("\n".join(f"{name:16}{about}" for name, about in registry.titles().items()))
        return 0
    changes = settings.given(options)
    preset, text = changes.pop("preset", "small"), changes.pop("text", None)
    lab = laboratory.Laboratory(
        presets.preset_of(preset, changes), config.convert("text", text, str | None)
    )
    summaries = running.run(
        options.figure, lab, options.out, overwrite=options.overwrite, notice=notice
    )
    if options.json:
        print(storage.json_text(summaries if len(summaries) > 1 else summaries[0]))
    else:
        print("\n".join([*map(claims, summaries), f"results   {options.out}"]))
    return 0


def notice(figure: str) -> None:
    """Which figure is being made, on a terminal's standard error."""
    if sys.stderr.isatty():
        print(f"{figure} …", file=sys.stderr)


def claims(summary: dict[str, Any]) -> str:
    """The claims of one figure for a person."""
    verdicts = [
        f"  {'held  ' if claim['held'] else 'FAILED'}  {claim['text']}"
        for claim in summary["claims"]
    ]
    return "\n".join([f"{summary['figure']} ({summary['seconds']:.0f} s)", *verdicts])
