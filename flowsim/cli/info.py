"""`flowsim info`: versions, devices and precision."""

import argparse
import platform
from importlib.metadata import version
from typing import Any

EXAMPLE = "Example: flowsim info"
PACKAGES = ("flowsim", "jax", "jaxlib", "diffrax", "equinox", "optax", "numpy", "scipy")


def add(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "info",
        help="versions, devices and precision",
        description=__doc__,
        epilog=EXAMPLE,
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print what a report of a problem needs."""
    import jax

    print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    print(", ".join(f"{name} {version(name)}" for name in PACKAGES))
    print("devices: " + ", ".join(str(device) for device in jax.devices()))
    print(f"double precision: {'on' if jax.config.jax_enable_x64 else 'off'}")  # type: ignore[attr-defined]
    print(f"compilation cache: {jax.config.jax_compilation_cache_dir or 'none'}")  # type: ignore[attr-defined]
    return 0
