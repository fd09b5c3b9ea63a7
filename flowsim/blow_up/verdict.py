"""What is known about blow-up: a value, not an exception."""

from typing import ClassVar

from flowsim.outcome import Named

MEANINGS = {
    "proved": "E > 0 is reached, by more than its accumulated error: then blow-up is a theorem",
    "undecided": "rounding hides whether the solution blows up: the start is degenerate, or nearly",
    "never": "no blow-up, known in closed form (an equilibrium, or a degenerate scalar start)",
}
NAMES = tuple(MEANINGS)
PROVED, UNDECIDED, NEVER = range(3)


class Verdict(Named):
    """`proved`, `undecided` or `never`.

    >>> Verdict.of("proved") == "proved"
    True
    """

    meanings: ClassVar[dict[str, str]] = MEANINGS
