"""Tests run in float64, with strict dtype promotion and with shapes checked at run time."""

import gc
import os
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=true")

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

with install_import_hook("flowsim", "beartype.beartype"):
    import flowsim  # noqa: F401

MAPS = Path("/proc/self/maps")
#: Compiled programs are dropped past so many pieces of memory: Linux gives a process 65,530, each
#: program takes some, and when there are no more the process aborts while it compiles.
MOST_MAPS = 25_000


def pytest_runtest_teardown(item, nextitem):
    """Between two files: drop what the finished ones compiled, before there is too much of it."""
    if nextitem is None or nextitem.path == item.path or not MAPS.exists():
        return
    if MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
