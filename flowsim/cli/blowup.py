"""`flowsim blowup`: blow-up times of the leading-order flow, with bounds and a verdict."""

import argparse
from typing import Any

from flowsim import checks, storage

EXAMPLE = "Example: flowsim blowup --width 16 --count 3 --seed 1 --json"


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "blowup",
        help="blow-up times of the leading-order flow",
        description=__doc__,
        epilog=EXAMPLE,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", metavar="FILE", help=".npz or .json with W_v, W_1 and W_2")
    source.add_argument("--width", type=int, help="h = m of unit Gaussian weights")
    parser.add_argument("--count", type=int, default=1, help="number of Gaussian starts")
    parser.add_argument("--seed", type=int, default=0, help="seed of the Gaussian starts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Compute and print; an undecided verdict is an answer too."""
    cases = [case(*weights) for weights in starts(options)]
    if options.json:
        print(storage.json_text(cases[0] if len(cases) == 1 else {"cases": cases}))
    else:
        print("\n".join(map(text, cases)))
    return 0


def starts(options: argparse.Namespace) -> list[tuple[Any, Any, Any]]:
    """The weights (W_v, W_1, W_2) asked for; Gaussian start i depends on seed and i alone."""
    if options.input is not None:
        return [storage.load_weights(options.input, name="input")]
    import jax

    h = checks.integer("width", options.width)
    count = checks.integer("count", options.count)
    key = jax.random.key(checks.seed("seed", options.seed))

    @jax.jit
    def draw(i):
        w, W_1, W_2 = jax.random.split(jax.random.fold_in(key, i), 3)
        normal = jax.random.normal
        return normal(w, (h,)), normal(W_1, (h, h)), normal(W_2, (h,))

    return [draw(i) for i in range(count)]


def case(W_v: Any, W_1: Any, W_2: Any) -> dict[str, Any]:
    """One result, ready for JSON."""
    from flowsim.blow_up import blow_up_time

    found = blow_up_time(W_v, W_1, W_2)
    return {
        "blow_up_time": float(found.time),
        "lower": float(found.lower),
        "upper": float(found.upper),
        "verdict": found.verdict.name,
        "energy": float(found.energy),
        "steps": int(found.steps),
    }


def text(found: dict[str, Any]) -> str:
    """One result, for a person."""
    return (
        f"T* = {found['blow_up_time']!r} in [{found['lower']!r}, {found['upper']!r}], "
        f"{found['verdict']}, E = {found['energy']:.6g}, {found['steps']} steps"
    )
