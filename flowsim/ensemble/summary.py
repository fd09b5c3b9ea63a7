"""Summaries of an ensemble; members without a verdict count as censored."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from flowsim.blow_up.verdict import NEVER, UNDECIDED
from flowsim.ensemble.members import Members

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
CONFIDENCE = 0.95
NORMAL_95 = 1.959963984540054


def quantile(
    members: Members, level: float, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """A quantile of T* and the ends of its confidence interval, from order statistics.

    The interval holds whatever the distribution: ranks are those of the binomial law. For its
    lower end members without a verdict stand at what is known to bound them, for the rest at
    infinity.
    """
    from scipy.stats import binom

    n = len(members)
    tail = (1 - confidence) / 2
    first, last = (int(binom.ppf(p, n, level)) for p in (tail, 1 - tail))
    least = np.sort(np.where(members.verdict == UNDECIDED, members.lower, members.time))
    most = np.sort(members.time)
    middle = most[min(n - 1, max(0, int(np.ceil(level * n)) - 1))]
    low = least[first - 1] if first > 0 else 0.0
    high = most[last] if last < n else np.inf
    return float(middle), float(low), float(high)


def quantiles(members: Members, levels: Sequence[float] = LEVELS) -> dict[str, Any]:
    """{level: {value, low, high}}, an end that is not known infinite."""
    found = {f"{level:g}": quantile(members, level) for level in levels}
    return {
        level: dict(zip(("value", "low", "high"), numbers, strict=True))
        for level, numbers in found.items()
    }


def survival(
    members: Members,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, "2 n"]]:
    """Kaplan–Meier estimate of P(T* > t): times, values just after them, and a 95 % band.

    A member without a verdict leaves the sample, uncounted, at its lower bound. The band is
    Greenwood's, on log(−log) scale; where nobody is left, at zero, it is not known (NaN).
    """
    ended = np.isfinite(members.time)
    censored = members.verdict == UNDECIDED
    leaves = np.where(ended, members.time, np.where(censored, members.lower, np.inf))
    times, events = np.unique(members.time[ended], return_counts=True)
    risk = len(members) - np.searchsorted(np.sort(leaves), times, side="left")
    values = np.cumprod(1 - events / risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(events / (risk * (risk - events)))
        spread = NORMAL_95 * np.sqrt(variance) / np.abs(np.log(values))
        band = np.stack([values ** np.exp(spread), values ** np.exp(-spread)])
    return times, values, np.where(values > 0, band, np.nan)


def by_energy_sign(members: Members) -> dict[str, Any]:
    """Count and median of T* of the members that start with E > 0 and with E ≤ 0."""
    found = {}
    for name, chosen in (("positive", members.energy > 0), ("not_positive", members.energy <= 0)):
        part = subset(members, chosen)
        median = quantile(part, 0.5)[0] if len(part) else None
        found[name] = {"count": len(part), "median": median}
    return found


def subset(members: Members, chosen: np.ndarray) -> Members:
    """The chosen members."""
    import jax

    return jax.tree.map(lambda x: x[chosen], members)


def summarise(members: Members) -> dict[str, Any]:
    """Count, median, quantiles with intervals, members without a verdict, sign of E(0)."""
    found = quantiles(members)
    return {
        "count": len(members),
        "median": found["0.5"]["value"],
        "quantiles": {level: numbers["value"] for level, numbers in found.items()},
        "intervals": {level: [numbers["low"], numbers["high"]] for level, numbers in found.items()},
        "undecided": members.undecided,
        "never": int(np.sum(members.verdict == NEVER)),
        "by_energy_sign": by_energy_sign(members),
        "mean_steps": float(np.mean(members.steps)),
    }
