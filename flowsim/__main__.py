"""`python -m flowsim` is the command line."""

import sys

from flowsim.cli import console

sys.exit(console())
