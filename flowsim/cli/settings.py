"""Settings that every command takes alike: flags, a TOML file, and `key=value`.

The settings of a command are the fields of a frozen dataclass; some of them have a flag.
"""

import argparse
import dataclasses
from importlib import import_module
from typing import Any

from flowsim import checks

#: Flags of commands that start a network: type and meaning.
START: dict[str, tuple[type, str]] = {
    "task": (str, "digits (default), gaussian, anchor, text:FILE, or FILE.npz with X and y"),
    "scale": (float, "ε, scale of the start (default 1e-2)"),
    "width": (int, "token width d (default 16)"),
    "seed": (int, "seed of the start (default 0)"),
    "activation": (str, "tanh (default), gelu, silu or identity"),
    "loss": (str, "exponential (default) or logistic"),
}


def add(parser: Any, kind: str, flags: dict[str, tuple[type, str]]) -> None:
    """Add the flags, `--config` and `key=value`; `kind` is "module:name" of the dataclass, which
    is imported when it is needed."""
    parser.add_argument("--config", metavar="FILE.toml", help="settings to start from")
    for name, (type_, meaning) in flags.items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, type=type_, help=meaning)
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="any of the settings below"
    )
    parser.set_defaults(kind=kind, flags=tuple(flags))
    parser.settings = lambda: (
        "Settings: " + ", ".join(f.name for f in dataclasses.fields(load(kind)))
    )


def load(kind: str) -> Any:
    """The dataclass "module:name"."""
    module, name = kind.split(":")
    return getattr(import_module(module), name)


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """What the user has set: `file`, `flags` and `pairs`, lowest precedence first."""
    flags = {name: getattr(options, name) for name in options.flags}
    return {"file": options.config, "flags": flags, "pairs": options.overrides}


def given(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that the user has set, by name."""
    from flowsim.experiments import config

    return config.given(**asked(options))


def resolved(options: argparse.Namespace) -> Any:
    """The configuration: what the user has set, over the defaults."""
    from flowsim.experiments import config

    return config.resolve(load(options.kind), **asked(options))


def add_results(parser: Any, out: str | None = None) -> None:
    """Add `--out`, `--overwrite` and `--json`."""
    default = "none" if out is None else out
    parser.add_argument("--out", default=out, help=f"result folder (default: {default})")
    parser.add_argument("--overwrite", action="store_true", help="replace earlier results")
    parser.add_argument("--json", action="store_true", help="print JSON")


def numbers(name: str, text: str | None, kind: type) -> tuple[Any, ...] | None:
    """A list of numbers with commas between them."""
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise checks.fail(name, "be numbers with commas between them", text) from error
