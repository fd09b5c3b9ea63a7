"""The command line: one file a command; the only room that prints."""

from flowsim.cli.main import console as console
from flowsim.cli.main import main as main
