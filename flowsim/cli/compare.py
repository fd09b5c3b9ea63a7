"""`flowsim compare`: gradient descent and SGD against the flow, over learning rates."""

import argparse
from typing import Any

from flowsim import checks, storage
from flowsim.outcome import FAILURES

EXAMPLE = "Example: flowsim compare --task gaussian --scale 1e-2 --rates 0.1,0.2,0.4 --json"
#: Flags that are configuration keys of the same name.
FLAGS = ("task", "scale", "width", "seed", "activation", "loss")


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "compare",
        help="gradient descent against the flow",
        description=__doc__,
        epilog=EXAMPLE,
    )
    parser.add_argument("--task", help="digits (default), gaussian, or FILE.npz with X and y")
    parser.add_argument("--scale", type=float, help="ε, scale of the start (default 1e-2)")
    parser.add_argument("--width", type=int, help="token width d (default 16)")
    parser.add_argument("--seed", type=int, help="seed of the start (default 0)")
    parser.add_argument("--activation", help="tanh (default), gelu, silu or identity")
    parser.add_argument("--loss", help="exponential (default) or logistic")
    parser.add_argument("--rates", metavar="η,η,…", help="learning rates (default: by T*)")
    parser.add_argument("--batches", metavar="B,B,…", help="batch sizes (default: by n)")
    parser.add_argument("--out", help="result folder (default: none)")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier comparison")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="any other setting")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Compare and print the tables."""
    from flowsim.experiments import config as configuration
    from flowsim.experiments import descent_comparison

    flags = {name: getattr(options, name) for name in FLAGS}
    flags["rates"] = numbers("rates", options.rates, float)
    flags["batches"] = numbers("batches", options.batches, int)
    config = configuration.resolve(
        descent_comparison.DescentStudy, flags=flags, pairs=options.overrides
    )
    summary = descent_comparison.run(config, options.out, overwrite=options.overwrite)
    print(storage.json_text(summary) if options.json else text(summary, options.out))
    return int(summary["outcome"] in FAILURES)


def numbers(name: str, text: str | None, kind: type) -> tuple[Any, ...] | None:
    """A list of numbers with commas between them."""
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise checks.fail(name, "be numbers with commas between them", text) from error


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
    ]
    return "\n".join([*lines, f"results   {out}"] if out else lines)
