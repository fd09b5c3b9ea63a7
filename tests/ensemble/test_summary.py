"""Quantiles, intervals and survival, against known laws and hand computation."""

import warnings

import numpy as np
import pytest
from scipy import stats

from flowsim.blow_up.verdict import NEVER, PROVED, UNDECIDED
from flowsim.ensemble import Members, quantile, summarise, survival


def members(time, verdict=None, lower=None):
    time = np.asarray(time, float)
    verdict = np.full(time.size, PROVED) if verdict is None else np.asarray(verdict)
    return Members(
        time=time,
        lower=time if lower is None else np.asarray(lower, float),
        verdict=verdict.astype(np.int8),
        energy=np.where(np.arange(time.size) % 2 == 0, 1.0, -1.0),
        steps=np.full(time.size, 9, np.int32),
    )


def test_survival_with_a_censored_member_by_hand():
    found = members([1, 2, np.inf, 4], [PROVED, PROVED, UNDECIDED, PROVED], [1, 2, 3, 4])
    times, values, band = survival(found)
    assert times.tolist() == [1, 2, 4]
    np.testing.assert_allclose(values, [3 / 4, 3 / 4 * 2 / 3, 0])
    assert np.all((band[0] <= values)[:-1])
    assert np.all((values <= band[1])[:-1])
    assert np.isnan(band[:, -1]).all()  # nobody is left
    # a member that never blows up stays at risk
    forever = members([1, 2, np.inf, 4], [PROVED, PROVED, NEVER, PROVED], [1, 2, np.inf, 4])
    np.testing.assert_allclose(survival(forever)[1], [3 / 4, 1 / 2, 1 / 4])


def test_greenwood_band_without_censoring_is_binomial():
    times, values, band = survival(members(np.arange(1.0, 101)))
    np.testing.assert_allclose(values, 1 - times / 100)
    s = values[39]
    spread = 1.959963984540054 * np.sqrt(s * (1 - s) / 100) / (s * abs(np.log(s)))
    np.testing.assert_allclose(band[:, 39], [s ** np.exp(spread), s ** np.exp(-spread)])


@pytest.mark.parametrize("count", [5, 50, 2000])
def test_survival_with_ties_and_censored_members_is_that_of_scipy(count):
    rng = np.random.default_rng(count)
    ends, leaves = np.round(rng.exponential(size=(2, count)), 1) + 0.1
    died, seen = ends <= leaves, np.minimum(ends, leaves)
    verdicts = np.where(died, PROVED, UNDECIDED)
    times, values, band = survival(members(np.where(died, ends, np.inf), verdicts, seen))
    theirs = stats.ecdf(stats.CensoredData.right_censored(seen, ~died)).sf
    np.testing.assert_allclose(values, theirs.evaluate(times), rtol=1e-12, atol=1e-15)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interval = theirs.confidence_interval(method="log-log")
    for ours, bound in zip(band, (interval.low, interval.high), strict=True):
        np.testing.assert_allclose(ours, bound.evaluate(times), rtol=1e-10)


def test_quantile_intervals_are_near_those_of_a_bootstrap():
    sample = np.random.default_rng(1).exponential(size=2000)
    for level in (0.05, 0.5, 0.95):
        _, low, high = quantile(members(sample), level)
        again = stats.bootstrap(
            (sample,), lambda x, axis, p=level: np.quantile(x, p, axis=axis),
            n_resamples=1000, method="percentile", rng=2, batch=250,
        ).confidence_interval  # fmt: skip
        tenth = 0.1 * (again.high - again.low)
        assert abs(low - again.low) < 2 * tenth
        assert abs(high - again.high) < 2 * tenth


def test_quantile_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        _, low, high = quantile(members(rng.exponential(size=60)), 0.5)
        covered += low <= np.log(2) <= high
    assert 0.93 <= covered / 400 <= 0.995


def test_members_without_a_verdict_widen_the_interval_and_can_hide_a_quantile():
    time = np.append(np.arange(1.0, 8), [np.inf] * 3)
    found = members(time, [PROVED] * 7 + [UNDECIDED] * 3, np.append(np.arange(1.0, 8), [0] * 3))
    assert quantile(found, 0.5)[0] == 5
    assert quantile(found, 0.95)[0] == np.inf
    complete = members(np.arange(1.0, 11))
    assert quantile(found, 0.5)[1] < quantile(complete, 0.5)[1]


def test_summary_counts_by_verdict_and_by_sign():
    time = [1.0, 2.0, np.inf, np.inf]
    found = summarise(members(time, [PROVED, PROVED, UNDECIDED, NEVER], [1, 2, 0, np.inf]))
    assert (found["count"], found["undecided"], found["never"]) == (4, 1, 1)
    assert found["median"] == 2
    assert found["by_energy_sign"]["positive"]["count"] == 2
    assert found["by_energy_sign"]["not_positive"]["median"] == pytest.approx(2)
