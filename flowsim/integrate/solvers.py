"""Solvers by name, and what the stepper needs to know of each."""

from typing import Any

import diffrax
import equinox as eqx
import jax

from flowsim import checks
from flowsim.integrate import scales

#: Names that `solver=` accepts; any diffrax solver object with an error estimate works too.
SOLVERS = {
    "tsit5": diffrax.Tsit5,
    "dopri5": diffrax.Dopri5,
    "dopri8": diffrax.Dopri8,
    "kvaerno5": diffrax.Kvaerno5,
}


class Chord(diffrax.VeryChord):
    """diffrax's chord method with an error that has no units.

    The unknowns are rates ẏ, whose size depends on the units of y and t; an absolute tolerance on
    them would leave the stages of a slow flow unsolved.
    """

    rtol: Any
    atol: Any = 0.0

    def step(
        self, fn: Any, y: Any, args: Any, options: Any, state: Any, tags: Any
    ) -> tuple[Any, Any, Any]:
        """One iteration, its size measured against `rtol` as the stepper measures errors."""
        y, state, aux = super().step(fn, y, args, options, state, tags)
        size = jax.tree.map(scales.rms, y)
        ratio = scales.error_ratio(state.diff, y, y, size, self.rtol, None)
        return y, eqx.tree_at(lambda s: s.diffsize, state, ratio), aux


def solver_of(solver: Any, rtol: Any) -> diffrax.AbstractAdaptiveSolver:
    """The diffrax solver of that name; implicit stages are solved well below rtol (`Chord`)."""
    if isinstance(solver, diffrax.AbstractAdaptiveSolver):
        return solver
    if isinstance(solver, diffrax.AbstractSolver):
        raise checks.fail("solver", "have an error estimate (an adaptive solver)", solver)
    name = checks.choice("solver", solver, SOLVERS)
    if name != "kvaerno5":
        return SOLVERS[name]()
    return diffrax.Kvaerno5(root_finder=Chord(rtol))


def evaluations(solver: diffrax.AbstractAdaptiveSolver, attempts: int) -> int | None:
    """Evaluations of the vector field in that many attempted steps; None for implicit solvers,
    whose stages take as many as their root finder wants."""
    tableau = getattr(solver, "tableau", None)
    if not isinstance(tableau, diffrax.ButcherTableau) or tableau.implicit:
        return None
    return attempts * (tableau.num_stages - int(tableau.fsal)) + int(tableau.fsal)
