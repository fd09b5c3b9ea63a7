"""Large weights in Krylov spaces: the spaces themselves, and T* against the whole weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.exact_times import exact_blow_up_time, short_gaussians
from flowsim import blow_up_time
from flowsim.blow_up.krylov import COLUMNS, LARGE, in_krylov_spaces
from flowsim.blow_up.leading_order import packed_blow_up

SHAPE = (LARGE, LARGE + 20)


def gaussian(seed, shape=SHAPE):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=size) for size in ((shape[0],), shape, (shape[1],))]


def by_the_whole_weights(weights):
    return np.asarray(packed_blow_up(*map(jnp.asarray, weights), "taylor"))


def test_small_weights_are_tridiagonal_and_start_with_the_first_axes():
    (w, first, second), value_of, hidden_of = in_krylov_spaces(*map(jnp.asarray, gaussian(0)))
    beside = np.triu(first, 2) + np.tril(first, -2)
    np.testing.assert_allclose(beside, 0, atol=1e-13)
    np.testing.assert_allclose(w[1:], 0, atol=1e-14)
    np.testing.assert_allclose(second[1:], 0, atol=1e-14)
    for basis in (value_of(jnp.eye(COLUMNS)), hidden_of(jnp.eye(COLUMNS))):
        np.testing.assert_allclose(basis @ basis.T, np.eye(COLUMNS), atol=1e-14)


def test_nothing_is_added_to_spaces_that_are_exhausted():
    w, _, second = gaussian(1)
    first = np.outer(w, second) / 10 + np.outer(np.roll(w, 1), np.roll(second, 1)) / 10
    (_, small, _), value_of, _ = in_krylov_spaces(*map(jnp.asarray, (w, first, second)))
    sizes = np.linalg.norm(value_of(jnp.eye(COLUMNS)), axis=1)
    assert np.all((np.abs(sizes - 1) < 1e-14) | (sizes == 0))
    whole = np.linalg.svd(first, compute_uv=False)[:COLUMNS]
    found = np.linalg.svd(small, compute_uv=False)
    np.testing.assert_allclose(found, whole, atol=1e-14 * whole[0])


def starts():
    w, first, second = gaussian(2)
    rng = np.random.default_rng(3)
    low_rank = rng.normal(size=(SHAPE[0], 4)) @ rng.normal(size=(4, SHAPE[1]))
    mask = rng.random(SHAPE) < 0.05
    return {
        "gaussian": (w, first, second),
        "E < 0": (-first @ second / 10, first, second),
        "large w": (100 * w, first, second),
        "large W_2": (w, first, 1000 * second),
        "zero w": (0 * w, first, second),
        "zero W_2": (w, first, 0 * second),
        "zero W_1": (w, 0 * first, second),
        "low rank": (w, low_rank, second),
        "sparse": (w, first * mask, second),
        "large W_1": (w, 1e6 * first, second),
        "heavy tails": (w**3, first**5, second**3),
    }


@pytest.mark.parametrize("name", starts())
def test_the_same_as_from_the_whole_weights(name):
    weights = starts()[name]
    found, whole = blow_up_time(*weights), by_the_whole_weights(weights)
    assert found.time == pytest.approx(whole[0], rel=1e-15)
    assert found.verdict == "proved"
    assert found.lower <= whole[0] <= found.upper
    assert found.upper - found.lower <= 1e-13 * found.time
    directions = np.concatenate([found.value_direction, found.hidden_direction])
    np.testing.assert_allclose(directions, whole[6:], atol=2e-15)


def test_a_solution_that_the_spaces_do_not_hold_comes_from_the_whole_weights():
    weights = starts()["large W_1"]
    assert blow_up_time(*weights).time == by_the_whole_weights(weights)[0]


def test_many_digits_and_exact_scaling():
    weights = short_gaussians(4, *SHAPE)
    truth, rest = exact_blow_up_time(*weights)
    found = blow_up_time(*weights)
    assert abs((found.time - truth) - rest) <= 1e-15 * truth
    assert found.lower <= truth <= found.upper
    for power in (-300, 300):
        scaled = blow_up_time(*(np.ldexp(part, power) for part in weights))
        assert scaled.time == np.ldexp(found.time, -power)


def test_an_equilibrium_never_blows_up():
    w, first, second = gaussian(5)
    assert blow_up_time(0 * w, first, 0 * second).verdict == "never"


def test_under_jit_the_whole_weights_are_used():
    weights = gaussian(6)
    traced = jax.jit(lambda *W: blow_up_time(*W).time)(*weights)
    assert traced == pytest.approx(blow_up_time(*weights).time, rel=1e-15)
