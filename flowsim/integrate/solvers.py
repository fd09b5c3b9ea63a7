"""Solvers by name, and what the stepper needs to know of each."""

from typing import Any

import diffrax

from flowsim import checks

#: Names that `solver=` accepts; any diffrax solver object with an error estimate works too.
SOLVERS = {
    "tsit5": diffrax.Tsit5,
    "dopri5": diffrax.Dopri5,
    "dopri8": diffrax.Dopri8,
    "kvaerno5": diffrax.Kvaerno5,
}


def solver_of(solver: Any, rtol: Any) -> diffrax.AbstractAdaptiveSolver:
    """The diffrax solver of that name; implicit stages are solved ten times tighter than rtol."""
    if isinstance(solver, diffrax.AbstractAdaptiveSolver):
        return solver
    if isinstance(solver, diffrax.AbstractSolver):
        raise checks.fail("solver", "have an error estimate (an adaptive solver)", solver)
    name = checks.choice("solver", solver, SOLVERS)
    if name != "kvaerno5":
        return SOLVERS[name]()
    return diffrax.Kvaerno5(root_finder=diffrax.VeryChord(rtol=0.1 * rtol, atol=1e-3 * rtol))


def evaluations(solver: diffrax.AbstractAdaptiveSolver, attempts: int) -> int | None:
    """Evaluations of the vector field in that many attempted steps; None for implicit solvers,
    whose stages take as many as their root finder wants."""
    tableau = getattr(solver, "tableau", None)
    if not isinstance(tableau, diffrax.ButcherTableau) or tableau.implicit:
        return None
    return attempts * (tableau.num_stages - int(tableau.fsal)) + int(tableau.fsal)
