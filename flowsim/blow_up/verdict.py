"""What is known about blow-up: a value, not an exception."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

#: What each verdict means, in the words that a user reads; the position is the code.
MEANINGS = {
    "proved": "E > 0 is reached, by more than its accumulated error: then blow-up is a theorem",
    "undecided": "rounding hides whether the solution blows up: the start is degenerate, or nearly",
    "never": "no blow-up, known in closed form (an equilibrium, or a degenerate scalar start)",
}
NAMES = tuple(MEANINGS)
PROVED, UNDECIDED, NEVER = range(3)


class Verdict(eqx.Module):
    """`proved`, `undecided` or `never`.

    It is data, so it passes through `jit` and `vmap`: `code` is an integer array with one entry a
    member. `verdict == "proved"` compares by name, a boolean for one start and an array for many.

    >>> Verdict.of("proved") == "proved"
    True
    """

    code: Any

    @classmethod
    def of(cls, name: str) -> "Verdict":
        """The verdict of that name."""
        return cls(np.int32(NAMES.index(name)))

    @property
    def name(self) -> Any:
        """The name, or an array of names for a batch."""
        codes = np.asarray(self.code)
        return NAMES[int(codes)] if codes.ndim == 0 else np.asarray(NAMES)[codes]

    @property
    def meaning(self) -> str:
        """What it means (one start)."""
        return MEANINGS[self.name]

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str):
            if other not in NAMES:
                raise ValueError(f"verdict must be compared with one of {NAMES}; got {other!r}")
            same = self.code == NAMES.index(other)
        elif isinstance(other, Verdict):
            same = self.code == other.code
        else:
            return NotImplemented
        return bool(same) if not isinstance(same, jax.core.Tracer) and np.ndim(same) == 0 else same

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name if np.ndim(self.code) == 0 else ", ".join(map(str, np.ravel(self.name)))
