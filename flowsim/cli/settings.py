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
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="any setting")
    parser.set_defaults(kind=kind, flags=tuple(flags))
    parser.settings = lambda: (
        "Settings: " + ", ".join(f.name for f in dataclasses.fields(load(kind)))
    )


def load(kind: str) -> Any:
    """The dataclass "module:name"."""
    module, name = kind.split(":")
    return getattr(import_module(module), name)


def given(options: argparse.Namespace) -> dict[str, Any]:
    """What the user has set: the file's settings, then flags, then `key=value`."""
    from flowsim.experiments import config

    flags = {name: getattr(options, name) for name in options.flags}
    return config.given(file=options.config, flags=flags, pairs=options.overrides)


def resolved(options: argparse.Namespace) -> Any:
    """The configuration: what the user has set, over the defaults."""
    from flowsim.experiments import config

    return config.build(load(options.kind), given(options))


def numbers(name: str, text: str | None, kind: type) -> tuple[Any, ...] | None:
    """A list of numbers with commas between them."""
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise checks.fail(name, "be numbers with commas between them", text) from error
