"""What a figure of the paper finds: claims with their verdicts, numbers, a picture, a table."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence that can fail, what was measured for it, and whether it held."""

    text: str
    held: bool
    measured: Any


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one figure.

    Attributes:
        claims: what the figure tests.
        rows: its table.
        picture: a figure, an axes or an array of axes; None for a table alone.
        notes: what the reader must know to judge it, such as what was chosen.
    """

    claims: Sequence[Claim]
    rows: Sequence[Mapping[str, Any]]
    picture: Any = None
    notes: str = ""

    @property
    def held(self) -> bool:
        """Whether every claim held."""
        return all(claim.held for claim in self.claims)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        claims = [dataclasses.asdict(claim) for claim in self.claims]
        return {"claims": claims, "held": self.held, "notes": self.notes}


def claim(text: str, held: Any, measured: Any) -> Claim:
    """A claim whose verdict may be any truth value."""
    return Claim(text, bool(held), measured)


def together(
    parts: Mapping[str, tuple[Sequence[Claim], Sequence[Mapping[str, Any]]]],
) -> tuple[list[Claim], list[dict[str, Any]]]:
    """Claims and rows of several panels, by name; each row says which panel it belongs to."""
    claims = [c for claims, _ in parts.values() for c in claims]
    rows = [{"panel": name} | dict(row) for name, (_, rows) in parts.items() for row in rows]
    return claims, rows


def order(sizes: Any, errors: Any) -> float | None:
    """p of errors ~ sizes^p, by least squares on logarithms; None with fewer than two points."""
    x, y = np.asarray(sizes, dtype=float), np.asarray(errors, dtype=float)
    known = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    if known.sum() < 2:
        return None
    return float(np.polyfit(np.log(x[known]), np.log(y[known]), 1)[0])
