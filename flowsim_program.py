"""The program `flowsim`: an interrupt ends it quietly from the first moment on.

It stands beside the package because importing the package takes most of a second; then
`flowsim.cli.console` takes over.
"""

import signal


def main() -> int:
    """The command line; until it is imported an interrupt ends the process at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from flowsim.cli import console

    return console()
