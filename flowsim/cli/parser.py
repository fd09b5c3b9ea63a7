"""The parser: bad usage is one line, not a page."""

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import flowsim
from flowsim import checks


class BadUsageError(Exception):
    """The command line cannot be understood."""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are exceptions of one line, and whose help lists all settings."""

    settings: Callable[[], str] | None = None
    commands: dict[str, "Parser"]

    def format_help(self) -> str:
        """What argparse prints, then the names of all settings, then the example on a line of its
        own, to be copied as it stands."""
        example, self.epilog = self.epilog, self.settings() if self.settings else None
        text = super().format_help()
        self.epilog = example
        return f"{text}\n{example}\n"

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print after its usage."""
        asked = message.replace(", KEY=VALUE", "")  # argparse takes what may be absent for needed
        raise BadUsageError(f"{asked} (see {self.prog} --help)")

    def refuse(self, unknown: list[str]) -> NoReturn:
        """Raise that arguments are not known, with the flag that may have been meant."""
        near = checks.nearest(unknown[0], self._option_string_actions)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")


def parse(parser: Parser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; `key=value` may stand anywhere between the flags."""
    options, rest = parser.parse_known_args(arguments)
    strange = [text for text in rest if text.startswith("-") or "=" not in text]
    if strange or (rest and not hasattr(options, "overrides")):
        parser.commands[options.command].refuse(strange or rest)
    if rest:
        options.overrides = [*options.overrides, *rest]
    return options


def build_parser(commands: Iterable[Any]) -> Parser:
    """The parser of all commands; each module adds itself with `add(subparsers)`."""
    parser = Parser(
        prog="flowsim",
        description="Gradient flows of one-layer transformers from small Gaussian starts.",
        epilog="Example: flowsim blowup --width 16",
    )
    parser.add_argument("--version", action="version", version=f"flowsim {flowsim.__version__}")
    parser.add_argument(
        "--cache",
        metavar="DIR",
        default=os.environ.get("FLOWSIM_CACHE"),
        help="keep compiled programs in DIR for the next start (default: $FLOWSIM_CACHE)",
    )
    subparsers = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser
    )
    for command in commands:
        command.add(subparsers)
    parser.commands = subparsers.choices
    return parser
