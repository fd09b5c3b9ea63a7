"""How a solve ended: a value, not an exception. Also what such values have in common."""

from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T", bound="Named")


class Named(eqx.Module):
    """One of a few words, as data: it passes through `jit` and `vmap`.

    `code` is an integer array with one entry a member. `found == "name"` compares by name, a
    boolean for one result and an array for many; a name that does not exist is an error.
    """

    code: Any

    #: What each name means, in the words that a user reads; the position is the code.
    meanings: ClassVar[dict[str, str]] = {}

    @classmethod
    def of(cls: type[T], name: str) -> T:
        """The value of that name."""
        return cls(np.int32(list(cls.meanings).index(name)))

    @property
    def name(self) -> Any:
        """The name, or an array of names for a batch."""
        codes, names = np.asarray(self.code), list(self.meanings)
        return names[int(codes)] if codes.ndim == 0 else np.asarray(names)[codes]

    @property
    def meaning(self) -> str:
        """What it means (one result)."""
        return self.meanings[self.name]

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str):
            if other not in self.meanings:
                what, names = type(self).__name__.lower(), tuple(self.meanings)
                raise ValueError(f"{what} must be compared with one of {names}; got {other!r}")
            other = self.of(other)
        if not isinstance(other, type(self)):
            return NotImplemented
        same = self.code == other.code
        return bool(same) if not isinstance(same, jax.core.Tracer) and np.ndim(same) == 0 else same

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        if same is NotImplemented:
            return same
        return not same if isinstance(same, bool) else ~same

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        if isinstance(self.code, jax.core.Tracer):
            return "traced"
        return self.name if np.ndim(self.code) == 0 else ", ".join(map(str, np.ravel(self.name)))


MEANINGS = {
    "reached_end": "the final time was reached",
    "event": "a terminal event stopped the run",
    "blow_up": "the solution leaves every bound at a finite time",
    "steady_state": "the state stands still: the vector field vanishes there",
    "step_too_small": "the step fell to rounding size without a blow-up (stiffness or a "
    "singularity of the vector field): try an implicit solver or a larger tolerance",
    "non_finite": "the vector field, or a step of a descent, gave NaN or infinity",
    "too_many_steps": "the step budget ran out first",
    "running": "the solve has not ended",
}
NAMES = tuple(MEANINGS)
FAILURES = ("step_too_small", "non_finite", "too_many_steps")


class Outcome(Named):
    """How a solve ended: one of `reached_end`, `event`, `blow_up`, `steady_state`,
    `step_too_small`, `non_finite`, `too_many_steps`. For a failure `meaning` says what to do.

    >>> Outcome.of("blow_up") == "blow_up"
    True
    """

    meanings: ClassVar[dict[str, str]] = MEANINGS

    @property
    def failed(self) -> Any:
        """Whether the solve ended before it said anything: step, field or budget gave out."""
        codes = [NAMES.index(name) for name in FAILURES]
        if isinstance(self.code, jax.core.Tracer):
            return jnp.isin(self.code, jnp.asarray(codes, dtype=self.code.dtype))
        failed = np.isin(self.code, codes)
        return bool(failed) if failed.ndim == 0 else failed
