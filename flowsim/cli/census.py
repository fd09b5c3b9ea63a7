"""`flowsim census`: blow-up times of very many Gaussian starts, resumable."""

import argparse
import contextlib
import os
import sys
from typing import Any

from flowsim import checks, storage
from flowsim.cli import settings

EXAMPLE = "Example: flowsim census --width 64 --count 10000 --out my-census"
#: Seconds that a process waits for the others when it is done: a month.
LONGEST = 30 * 24 * 3600
FLAGS: dict[str, tuple[type, str]] = {
    "width": (int, "h (= m) of unit Gaussian weights"),
    "hidden_width": (int, "m, if it is not h"),
    "count": (int, "number of starts"),
    "seed": (int, "seed of the starts (default 0)"),
    "source": (str, "chains (default; no matrices) or matrices (the starts of flowsim blowup)"),
    "widths": (str, "instead of width: T* √h at several widths h,h,…"),
}


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "census",
        help="blow-up times of very many starts",
        description=__doc__,
        epilog=EXAMPLE,
    )
    settings.add(parser, "flowsim.experiments.census:Starts", FLAGS)
    parser.add_argument("--out", metavar="DIR", help="folder to keep results and to resume from")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--distributed",
        metavar="auto|HOST:PORT,N,I",
        help="one of several processes with one --out: auto under SLURM or Open MPI, else where "
        "the first of them listens, how many they are, and which this is (0, 1, …)",
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Compute, or go on, and print the summary."""
    import jax

    use_all_cores(jax)
    options.widths = settings.numbers("widths", options.widths, int)
    config = settings.resolved(options)
    if options.distributed is not None:
        join_others(jax, options.distributed, options.out)
    from flowsim.experiments.census import census

    if config.widths is not None:
        return over_widths(config, options)
    given = {name: value for name, value in vars(config).items() if name != "widths"}
    with Notice(config.count) as notice:
        found = census(**given, out=options.out, notice=notice)
    if found is None:
        print("shards of other processes are missing: run again when they are done")
        return 0
    summary = found.summary()
    print(storage.json_text(summary) if options.json else text(summary, options.out))
    return 0


def over_widths(config: Any, options: argparse.Namespace) -> int:
    """A census at each of the widths, as a table."""
    from flowsim.experiments.widths import width_scaling
    from flowsim.report import markdown_table

    summary = width_scaling(config.widths, config.count, seed=config.seed, out=options.out)
    if options.json:
        print(storage.json_text(summary))
    else:
        limit = f"mean-field limit of T* sqrt(h): {summary['mean_field_limit']:.12g}"
        print(f"{markdown_table(summary['widths'])}\n\n{limit}")
    return 0


def use_all_cores(jax: Any) -> None:
    """One CPU device a core, unless the user has set their number or started JAX."""
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", cores or 1)


def join_others(jax: Any, text: str, out: str | None) -> None:
    """Be one of several processes, which at their end wait for the slowest, however long."""
    if out is None:
        raise checks.fail("out", "be a folder that all processes reach", out)
    where = text.split(",")
    numbers = len(where) == 3 and all(part.isdecimal() for part in where[1:])
    if text != "auto" and not (numbers and int(where[2]) < int(where[1])):
        raise checks.fail("distributed", "be auto, or HOST:PORT,N,I with I < N", text)
    place = () if text == "auto" else (where[0], int(where[1]), int(where[2]))
    jax.distributed.initialize(*place, shutdown_timeout_seconds=LONGEST)


class Notice:
    """A progress bar on a terminal's standard error; silent elsewhere."""

    def __init__(self, count: int):
        from tqdm import tqdm

        self.bar = tqdm(total=count, disable=not sys.stderr.isatty(), unit="start")

    def __enter__(self) -> Any:
        return self.bar.update

    def __exit__(self, *exception: object) -> None:
        self.bar.close()


def text(summary: dict[str, Any], out: str | None) -> str:
    """The summary for a person."""
    low, high = summary["intervals"]["0.5"]
    signs = summary["by_energy_sign"]
    lines = [
        f"{summary['count']} starts, h = {summary['width']}, m = {summary['hidden_width']}, "
        f"{summary['undecided']} undecided",
        f"median T* {summary['median']:.8g}, 95 % between {low:.6g} and {high:.6g} (unit rate)",
        "quantiles " + ", ".join(f"{p}: {t:.6g}" for p, t in summary["quantiles"].items()),
    ]
    lines += [
        f"E(0) {sign}: {part['count']} starts"
        + (f", median {part['median']:.6g}" if part["count"] else "")
        for sign, part in (("> 0", signs["positive"]), ("<= 0", signs["not_positive"]))
    ]
    if "mean_field_limit" in summary:
        lines.append(
            f"median T* sqrt(h) {summary['normalised_median']:.6g}, "
            f"limit for large h {summary['mean_field_limit']:.12g}"
        )
    return "\n".join(lines if out is None else [*lines, f"results   {out}"])
