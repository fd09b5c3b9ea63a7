"""The same bits whatever is shown or saved, and what single precision allows."""

import io
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flowsim as fs


@pytest.fixture(scope="module")
def setting():
    task = fs.tasks.gaussian(samples=12, length=3, width=3)
    net = fs.OneLayerTransformer()
    return net, task, fs.gaussian_parameters(jax.random.key(0), 3, scale=3e-2)


@pytest.fixture(scope="module")
def run(setting):
    return fs.simulate(*setting, t1=200.0, rtol=1e-7)


def same_bits(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self):
        return True


def test_again_and_with_a_progress_bar_every_bit_is_the_same(setting, run, monkeypatch):
    same_bits(fs.simulate(*setting, t1=200.0, rtol=1e-7).states, run.states)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown = fs.simulate(*setting, t1=200.0, rtol=1e-7, progress=True)
    assert "t = " in terminal.getvalue()
    same_bits((shown.times, shown.states, shown.rates), (run.times, run.states, run.rates))
    assert shown.event_times == run.event_times


def test_saving_dense_or_sparse_changes_no_bit(setting, run):
    sparse = fs.simulate(*setting, t1=200.0, rtol=1e-7, times=[1.0, 200.0])
    assert len(run) > 20
    assert len(sparse) == 2
    same_bits(sparse.final, run.final)
    assert sparse.event_times == run.event_times
    assert sparse.stats["accepted"] == run.stats["accepted"]
    for name in ("conserved_drift", "energy_drift"):
        assert sparse.stats[name] <= run.stats["conserved_drift"] + run.stats["energy_drift"]


def test_float32_simulates_with_a_warning(setting, run):
    """Within its own tolerances of the double-precision run; the rest is refused in words."""
    net, task, theta0 = jax.tree.map(
        lambda x: x.astype(jnp.float32) if isinstance(x, jax.Array) else x, setting
    )
    with pytest.warns(UserWarning, match="simulating in float32: escape and onset times lose"):
        single = fs.simulate(net, task, theta0, t1=100.0, rtol=1e-4)
    assert single.states.W_Q.dtype == jnp.float32
    assert single.outcome == "reached_end"
    exact = run.evaluate(100.0)
    for x, y in zip(jax.tree.leaves(single.final), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=2e-2 * float(jnp.max(jnp.abs(y))))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("blow_up_time", lambda setting: fs.blow_up_time(np.ones(1), np.ones((1, 1)), np.ones(1))),
        ("predict", lambda setting: fs.predict(*setting)),
        ("census", lambda setting: fs.census(2, 3)),
    ],
)
def test_what_needs_double_precision_says_so(name, call, setting):
    rule = r"needs double precision; add jax\.config\.update\('jax_enable_x64', True\)"
    with jax.enable_x64(False), pytest.raises(RuntimeError, match=f"{name} {rule}"):
        call(setting)


def test_one_precision_at_a_time(setting):
    net, task, theta0 = setting
    half = jax.tree.map(lambda x: x.astype(jnp.float32), theta0)
    with pytest.warns(match="float32"), pytest.raises(ValueError, match="float"):
        fs.simulate(net, task, half, t1=1.0)
