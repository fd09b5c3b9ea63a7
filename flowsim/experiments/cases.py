"""Blow-up times of single starts: from a file, or Gaussian ones by number."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax

from flowsim import checks, storage
from flowsim.blow_up import blow_up_time
from flowsim.ensemble.sources import gaussian_weights


@dataclasses.dataclass(frozen=True)
class Cases:
    """Either `input`, a file with W_v, W_1 and W_2, or `count` unit Gaussian starts of h = m =
    `width`; start i depends on `seed` and i alone."""

    input: str | None = None
    width: int | None = None
    count: int = 1
    seed: int = 0


def weights(cases: Cases) -> Iterator[tuple[Any, Any, Any]]:
    """W_v, W_1, W_2 of each case; the arguments are checked at once."""
    if (cases.input is None) == (cases.width is None):
        given = {"input": cases.input, "width": cases.width}
        raise checks.fail("exactly one of input and width", "be given", given)
    if cases.input is not None:
        return iter([storage.load_weights(cases.input, name="input")])
    h, count = checks.width("width", cases.width), checks.integer("count", cases.count)
    key = jax.random.key(checks.seed("seed", cases.seed))
    return (gaussian_weights(key, i, h, h) for i in range(count))


def solve(cases: Cases) -> list[dict[str, Any]]:
    """Each result, ready for JSON."""
    return [_result(blow_up_time(*start)) for start in weights(cases)]


def _result(found: Any) -> dict[str, Any]:
    return {
        "blow_up_time": float(found.time),
        "lower": float(found.lower),
        "upper": float(found.upper),
        "verdict": found.verdict.name,
        "energy": float(found.energy),
        "steps": int(found.steps),
    }
