"""Programs that are compiled quickly: those that run for less time than they take to compile."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from flowsim import checks

#: XLA's newer emitters of fused loops take half of the compilation of a program of many small
#: operations, which runs no faster for them.
OPTION = "xla_cpu_use_fusion_emitters"


def quickly_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` under `eqx.filter_jit`, compiled quickly where it is called from the host on CPU.

    Where the option is refused, in an error that names it, it is compiled as usual: inside of
    another transformation that only closures know of, or by an XLA that has no such option.
    """
    jit: Any = eqx.filter_jit
    usual, quick = jit(function), jit(function, compiler_options={OPTION: False})

    def call(*arguments):
        if checks.is_traced(arguments) or jax.default_backend() != "cpu":
            return usual(*arguments)
        try:
            return quick(*arguments)
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            if OPTION not in str(error):
                raise
        return usual(*arguments)

    return call
