"""Small programs without the cost of starting many kernels."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

#: Numbers in an argument, at most; XLA splits the work on larger ones over threads, and then
#: refuses the mark.
LARGEST = 128


def one_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` under `jit`, its loops included one kernel on CPU; for calls from the host.

    XLA's CPU runtime starts a kernel for every few fused operations, which on vectors of a few
    hundred numbers costs more than the numbers do; a call marked as small is compiled as a whole.
    Not for products of matrices. Larger arguments, and shapes that XLA does not compile so, are
    compiled as usual.
    """
    usual = jax.jit(function)
    refused: set[tuple[tuple[int, ...], ...]] = set()

    def marked(*arguments):
        with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
            return usual(*arguments)

    whole = jax.jit(marked)

    def call(*arguments):
        shapes = tuple(map(np.shape, arguments))
        small = max(map(np.size, arguments)) <= LARGEST
        if small and shapes not in refused and jax.default_backend() == "cpu":
            try:
                return whole(*arguments)
            except jax.errors.JaxRuntimeError:
                refused.add(shapes)
        return usual(*arguments)

    return call
