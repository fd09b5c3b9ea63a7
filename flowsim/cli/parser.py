"""The parser: bad usage is one line, not a page."""

import argparse
import os
from collections.abc import Iterable
from typing import Any, NoReturn


class BadUsageError(Exception):
    """The command line cannot be understood."""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are exceptions of one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print after its usage."""
        raise BadUsageError(f"{message} (see {self.prog} --help)")


def build_parser(commands: Iterable[Any]) -> Parser:
    """The parser of all commands; each module adds itself with `add(subparsers)`."""
    parser = Parser(
        prog="flowsim",
        description="Gradient flows of one-layer transformers from small Gaussian starts.",
        epilog="Example: flowsim blowup --width 16",
    )
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
    return parser
