"""`flowsim run`: one start through both stages, with figures and a summary."""

import argparse
from typing import Any

from flowsim import storage
from flowsim.cli import settings
from flowsim.outcome import FAILURES

EXAMPLE = "Example: flowsim run --task gaussian --scale 1e-3 --out my-run"


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "run", help="simulate both stages of one start", description=__doc__, epilog=EXAMPLE
    )
    settings.add(parser, "flowsim.experiments.two_stage:TwoStage", settings.START)
    settings.add_results(parser, "flowsim-run")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run it and print what came out."""
    from flowsim.experiments import two_stage

    config = settings.resolved(options)
    summary = two_stage.run(config, options.out, overwrite=options.overwrite, progress=True)
    print(storage.json_text(summary) if options.json else text(summary, options.out))
    return int(summary["outcome"] in FAILURES)


def text(summary: dict[str, Any], out: str) -> str:
    """The summary for a person."""
    blow_up, onset, final = summary["blow_up"], summary["onset"], summary["final"]
    lines = [
        f"task {summary['task']}, scale {summary['scale']:g}, seed {summary['seed']}",
        f"blow-up   predicted {_time(blow_up['predicted'])} ({blow_up['verdict']}), simulated "
        f"{_time(blow_up['simulated'])}, relative difference {_time(blow_up['relative_error'])}",
        f"onset     predicted {_time(onset['predicted'])}, simulated {_time(onset['simulated'])}",
        f"errors    {_errors(summary['comparison'])}",
        f"end       {_time(final['time'])} ({summary['outcome']}), loss {final['loss']:.4g}, "
        f"effective rank of W_Q {final['effective_ranks']['W_Q']:.2f}",
        f"results   {out}",
    ]
    lines[-1:-1] = [f"caution   {line}" for line in summary["cautions"].values()]
    lines[-1:-1] = [f"untrusted {why}" for why in summary["untrusted_because"]]
    return "\n".join(lines)


def _errors(comparison: dict[str, Any] | None) -> str:
    """Errors of the prediction at T, and where the linear theory of stage 2 stops."""
    if comparison is None or not comparison["at_blow_up"]:
        return "—"
    at = comparison["at_blow_up"]
    shown = ", ".join(f"{name} {at[name]:.2g}" for name in ("loss", "W_2", "W_Q"))
    departure = _time(comparison["linear_departure"])
    return f"at T: {shown}; linear key-query growth departs at {departure}"


def _time(value: float | None) -> str:
    return "—" if value is None else f"{value:.6g}"
