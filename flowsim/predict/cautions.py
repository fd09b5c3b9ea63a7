"""What a prediction says of its own limits, in one line each."""

from flowsim.predict.key_query import Growth
from flowsim.predict.plateau import Plateau

#: Small parameter (`Match.small`) from which errors of ten percent occur, of the onset first
#: (`python -m benchmarks.prediction limits`: ε = 0.02 on digits with GELU).
LARGEST_START = 0.07


class Caution(UserWarning):
    """The warning with which `predict` says a line."""


def cautions(
    *, small: float | None, plateau: Plateau, growth: Growth | None, onset: float | None
) -> dict[str, str]:
    """Name → line of each circumstance that takes something from the prediction.

    Args:
        small: `Match.small`; None where the leading-order flow does not blow up.
        onset: its time; None where it does not begin before the end.
    """
    found = {}
    if small is None:
        found["no_blow_up"] = "the leading-order flow does not blow up: only stage 1 is predicted"
    elif small > LARGEST_START:
        found["large_start"] = (
            f"the start is large for the theory (small parameter {small:.2g}, above "
            f"{LARGEST_START:g}): expect errors of ten percent and more"
        )
    if not plateau.exists:
        found["no_plateau"] = (
            "the mean tokens separate the labels: stage 1 does not end on a plateau"
        )
    if growth is not None and not growth.rate > 0:
        found["no_growth"] = "F vanishes at the plateau: keys and queries do not grow"
    elif growth is not None and growth.tied:
        found["tied"] = (
            f"{growth.multiplicity} growth rates lie within five percent of the largest: keys and "
            f"queries collapse to rank {growth.multiplicity}, and to rank one late or never"
        )
    if small is not None and onset is None:
        found["no_onset"] = "stage 2 does not begin before the end of the prediction"
    return found
