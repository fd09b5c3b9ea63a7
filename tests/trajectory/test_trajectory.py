"""The record of a run: rows, events, padding, text."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sine_runs import sine_run

from flowsim.outcome import Outcome
from flowsim.trajectory import Trajectory


def padded(count):
    times = jnp.asarray([0.0, 1.0, 2.0, jnp.inf, jnp.inf])
    return Trajectory(
        times,
        (times, 2 * times),
        Outcome.of("event"),
        rates=(jnp.ones(5), 2 * jnp.ones(5)),
        event_times={
            "late": 2.0 + 0 * count,
            "never": jnp.inf + 0 * count,
            "soon": 1.0 + 0 * count,
        },
        stats={"accepted": count, "seconds": 0.5},
        trusted=count > 0,
        count=count,
    )


def test_trim_cuts_padding_and_orders_events():
    run = jax.jit(padded)(jnp.asarray(3.0)).trim()
    assert list(run.event_times.items()) == [("soon", 1.0), ("late", 2.0)]
    assert run.trusted is True
    assert run.count is None
    assert run.stats == {"accepted": 3.0, "seconds": 0.5}
    assert run.times.tolist() == [0, 1, 2]
    assert run.rates[1].tolist() == [2, 2, 2]
    assert len(run) == 3
    assert float(run.final[1]) == 4.0
    assert float(run.evaluate(0.5)[1]) == pytest.approx(1.0)


def test_vmap_gives_batches_whose_members_trim():
    batch = jax.vmap(padded)(jnp.asarray([2.0, 3.0]))
    assert "batch=(2,)" in repr(batch)
    assert len(batch.member(0).trim()) == 2
    with pytest.raises(ValueError, match="member"):
        batch.trim()


def test_traced_trajectory_is_data():
    @jax.jit
    def last(run):
        assert len(run) == 5
        assert "traced" in repr(run)
        with pytest.raises(TypeError, match="traced"):
            run.evaluate(0.5)
        return run.final[1], run.outcome == "event"

    run = padded(jnp.asarray(3))
    value, ended = last(run)
    assert float(value) == 4.0
    assert bool(ended)
    assert len(run) == 3


def test_clock_is_static_and_checked():
    run = sine_run([0.0, 1.0], clock="steps")
    assert "steps" not in map(str, jax.tree.leaves(run))
    assert eqx.tree_at(lambda r: r.trusted, run, False).clock == "steps"
    with pytest.raises(ValueError, match="clock must be one of"):
        sine_run([0.0, 1.0], clock="wall")


def test_rows_and_structures_are_checked():
    with pytest.raises(ValueError, match=r"states\['a'\] must have 2 rows"):
        Trajectory([0.0, 1.0], {"a": np.zeros(3)}, Outcome.of("event"))
    with pytest.raises(ValueError, match="rates must have the structure"):
        Trajectory([0.0, 1.0], (np.zeros(2),), Outcome.of("event"), rates=np.zeros(2))
    with pytest.raises(ValueError, match="times must have 1 axis"):
        Trajectory(np.zeros((2, 2)), np.zeros(2), Outcome.of("event"))


def test_repr_is_one_short_line():
    run = sine_run([0.0, 1.0], event_times={"escape": 0.5, "onset": np.inf}, trusted=False)
    text = repr(run)
    assert text == ("Trajectory(2 rows, training time 0 to 1, reached_end; escape 0.5; untrusted)")
