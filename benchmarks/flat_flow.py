"""The full model's gradient flow on one vector, for solvers that know nothing of pytrees."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from flowsim.flows import Full
from flowsim.network import Parameters

#: Absolute tolerance over the relative one and the size of the start.
ATOL_OVER_RTOL = 1e-3
MOST_STEPS = 100_000


class FlatFlow:
    """The compiled rate and Jacobian of a flow, with a count of its evaluations."""

    def __init__(self, flow: Full, start: Parameters):
        self.flow = flow
        self.vector, self.restore = ravel_pytree(start)
        self.start = np.asarray(self.vector)
        self.rate = jax.jit(lambda y: ravel_pytree(flow.rate(0.0, self.restore(y), None))[0])

    @cached_property
    def jacobian(self) -> Callable[[Any], Any]:
        """The compiled Jacobian of the rate."""
        return jax.jit(jax.jacfwd(self.rate))

    def atol(self, rtol: float) -> float:
        """An absolute tolerance by the size of the start."""
        return ATOL_OVER_RTOL * rtol * float(np.sqrt(np.mean(self.start**2)))

    def by_scipy(self, method: str, t1: float, rtol: float, t0: float = 0.0) -> Any:
        """SciPy's `solve_ivp`: the final vector and the evaluations."""
        from scipy.integrate import solve_ivp

        implicit = method in ("LSODA", "Radau", "BDF")
        jacobian = {"jac": lambda _, y: np.asarray(self.jacobian(y))} if implicit else {}
        found = solve_ivp(
            lambda _, y: np.asarray(self.rate(y)), (t0, t1), self.start, method,
            rtol=rtol, atol=self.atol(rtol), t_eval=[t1], **jacobian,
        )  # fmt: skip
        return found.y[:, -1], found.nfev

    @cached_property
    def _diffrax(self) -> Callable[..., Any]:
        import diffrax

        def solve(y0, t0, t1, rtol, atol, solver):
            return diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, y, args: self.rate(y)),
                solver,
                t0=t0,
                t1=t1,
                dt0=None,
                y0=y0,
                stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
                max_steps=MOST_STEPS,
            )

        return jax.jit(solve, static_argnums=5)

    def by_diffrax(self, name: str, t1: float, rtol: float, t0: float = 0.0) -> Any:
        """diffrax, compiled once for all times and tolerances: the same."""
        import diffrax

        from flowsim.integrate.solvers import evaluations

        solver = getattr(diffrax, name)()
        times = jnp.asarray(t0), jnp.asarray(t1)
        found = self._diffrax(self.vector, *times, rtol, self.atol(rtol), solver)
        return np.asarray(found.ys[-1]), evaluations(solver, int(found.stats["num_steps"]))
