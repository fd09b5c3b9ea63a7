"""Tests run in float64, with strict dtype promotion and with shapes checked at run time."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=true")

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

with install_import_hook("flowsim", "beartype.beartype"):
    import flowsim  # noqa: F401
