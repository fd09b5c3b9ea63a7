"""What is known of each member of an ensemble."""

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int

from flowsim.blow_up.verdict import NAMES, UNDECIDED


class Members(eqx.Module):
    """Blow-up of members, in the unit-rate time of their weights.

    `time` is infinite where the verdict is not "proved"; T* is at least `lower` (for a proved
    member `time` itself).
    """

    time: Float[np.ndarray, " members"]
    lower: Float[np.ndarray, " members"]
    verdict: Int[np.ndarray, " members"]  # position in `Verdict`'s names
    energy: Float[np.ndarray, " members"]  # E at the start
    steps: Int[np.ndarray, " members"]

    @property
    def undecided(self) -> int:
        """How many members have no verdict."""
        return int(np.sum(self.verdict == UNDECIDED))

    @property
    def verdicts(self) -> dict[str, int]:
        """How many members have each verdict."""
        return {name: int(np.sum(self.verdict == code)) for code, name in enumerate(NAMES)}

    def __len__(self) -> int:
        return self.time.size


def joined(parts: Sequence[Members]) -> Members:
    """All members, in order."""
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)
