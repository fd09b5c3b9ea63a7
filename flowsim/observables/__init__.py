"""Functions of one state or of a trajectory: norms, ranks, condensation, conditions, invariants."""
