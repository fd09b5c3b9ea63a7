"""How the predicted blow-up time and the escape of the simulated network agree as ε → 0.

    python -m benchmarks.escape [--toy] [--out FOLDER]

makes the table of the README: digits, tanh, exponential loss, seed 0.
"""

from collections.abc import Iterator

from benchmarks import harness

SCALES = (1e-2, 1e-3, 1e-4)


def row(scale: float, seed: int = 0) -> dict[str, float]:
    """Predicted T, simulated escape and effective ranks of W_Q at onset and at the end."""
    import flowsim as fs
    from flowsim.experiments.two_stage import Setting, TwoStage
    from flowsim.observables.ranks import effective_rank

    setting = Setting(TwoStage(scale=scale, seed=seed))
    run = fs.simulate(setting.net, setting.task, setting.theta0)
    predicted = float(setting.blow_up().time) / setting.kappa
    escape, onset = run.event_times["escape"], run.event_times["onset"]
    return {
        "scale": scale,
        "predicted": predicted,
        "simulated": escape,
        "relative difference": abs(escape - predicted) / predicted,
        "W_Q rank at onset": float(effective_rank(run.evaluate(onset).W_Q)),
        "W_Q rank at end": float(effective_rank(run.final.W_Q)),
        "gradient evaluations": run.stats["evaluations"],
    }


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """One row a scale."""
    for scale in SCALES[:1] if toy else SCALES:
        yield map(row, [scale])


if __name__ == "__main__":
    harness.run("escape", measure, __doc__)
