"""The record of a run: rows, events, interpolation, files."""

import json
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BPoly, KroghInterpolator

from flowsim.network import Parameters, gaussian_parameters
from flowsim.outcome import Outcome
from flowsim.storage import write_netcdf
from flowsim.trajectory import Trajectory


def sine_run(times, **kwargs):
    """sin t, cos t as a two-leaf state with exact rates."""
    times = np.asarray(times, dtype=float)
    states = {"a": jnp.sin(times), "b": jnp.stack([jnp.cos(times), 2 * jnp.sin(times)], 1)}
    rates = {"a": jnp.cos(times), "b": jnp.stack([-jnp.sin(times), 2 * jnp.cos(times)], 1)}
    kwargs = {"rates": rates} | kwargs
    return Trajectory(times, states, Outcome.of("reached_end"), **kwargs)


def test_evaluate_is_exact_at_saved_times():
    run = sine_run(np.sort(np.random.default_rng(0).uniform(0, 9, 40)))
    found = run.evaluate(run.times)
    for name in run.states:
        assert np.array_equal(found[name], run.states[name])


@pytest.mark.parametrize(("with_rates", "order"), [(True, 8), (False, 4)])
def test_interpolation_order(with_rates, order):
    """The error falls like the spacing to the power of the degree plus one."""
    errors = []
    query = np.linspace(0, 6, 301)
    for rows in (13, 25):
        kwargs = {} if with_rates else {"rates": None}
        found = sine_run(np.linspace(0, 6, rows), **kwargs).evaluate(query)
        errors.append(np.max(np.abs(found["a"] - np.sin(query))))
    assert errors[0] > 1e-11
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.7)


def test_agrees_with_krogh_interpolation():
    """In the middle interval of four points the answer is scipy's osculating polynomial."""
    times = np.array([0.0, 0.9, 1.7, 3.0])
    run = sine_run(times)
    oracle = KroghInterpolator(
        np.repeat(times, 2), np.ravel([np.sin(times), np.cos(times)], order="F")
    )
    query = np.linspace(0, 3, 31)
    assert np.allclose(run.evaluate(query)["a"], oracle(query), rtol=0, atol=1e-13)


def test_polynomials_of_degree_seven_are_reproduced():
    poly = np.polynomial.Polynomial([1, -2, 0.5, 3, -1, 0.3, 0.2, -0.1])
    times = np.array([0.0, 0.3, 1.0, 1.4, 2.0])
    run = Trajectory(
        times, poly(times), Outcome.of("reached_end"), rates=np.asarray(poly.deriv()(times))
    )
    query = np.linspace(0, 2, 50)
    assert np.allclose(run.evaluate(query), poly(query), rtol=0, atol=1e-13)


def test_two_points_give_the_cubic_and_one_point_itself():
    run = sine_run([0.0, 1.0])
    oracle = BPoly.from_derivatives([0, 1], [[0, 1], [np.sin(1), np.cos(1)]])
    assert run.evaluate(0.3)["a"] == pytest.approx(float(oracle(0.3)), abs=1e-15)
    assert float(sine_run([2.0]).evaluate(2.0)["a"]) == float(jnp.sin(2.0))


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-12, 1e12), st.floats(-1e3, 1e3), st.floats(0, 1))
def test_unit_and_origin_of_time_do_not_matter(unit, origin, position):
    base = sine_run(np.linspace(0, 3, 9))
    moved = Trajectory(
        unit * (base.times + origin),
        base.states,
        base.outcome,
        rates=jax.tree.map(lambda x: x / unit, base.rates),
    )
    t = moved.times[0] + position * (moved.times[-1] - moved.times[0])
    t = min(max(t, moved.times[0]), moved.times[-1])
    there = min(max(t / unit - origin, 0.0), 3.0)
    assert np.allclose(moved.evaluate(t)["b"], base.evaluate(there)["b"], rtol=0, atol=1e-11)


def test_wildly_uneven_times_do_not_amplify_rounding():
    times = np.array([0, 1e-12, 1e-9, 1, 1 + 1e-11, 2, 2.5, 1e3])
    run = Trajectory(times, np.exp(-times), Outcome.of("reached_end"), rates=-np.exp(-times))
    query = np.linspace(0, 2.5, 400)
    assert np.max(np.abs(run.evaluate(query) - np.exp(-query))) < 5e-3
    assert np.max(run.evaluate(np.geomspace(2.5, 1e3, 100))) < 1


def test_backward_time_and_repeated_times():
    times = np.array([3.0, 2.5, 2.0, 2.0, 1.5, 1.0])
    assert float(sine_run(times).evaluate(1.8)["a"]) == pytest.approx(np.sin(1.8), abs=1e-7)


def test_evaluate_keeps_type_shape_and_precision():
    states = (jnp.ones((3, 2), jnp.float32), [jnp.zeros((3, 4, 5))])
    run = Trajectory(np.arange(3.0), states, Outcome.of("reached_end"))
    found = run.evaluate(np.full((2, 7), 0.5))
    assert jax.tree.structure(found) == jax.tree.structure(states)
    assert found[0].dtype == jnp.float32
    assert found[0].shape == (2, 7, 2)
    assert found[1][0].shape == (2, 7, 4, 5)


@pytest.mark.parametrize("t", [-1e-9, 3.0000001, np.nan, [0.0, 4.0]])
def test_evaluate_refuses_times_outside(t):
    with pytest.raises(ValueError, match=r"^t must"):
        sine_run(np.linspace(0, 3, 5)).evaluate(t)


def test_evaluate_refuses_times_that_turn_back_and_no_times():
    with pytest.raises(ValueError, match="times must run one way"):
        sine_run([0.0, 2.0, 1.0, 3.0]).evaluate(0.5)
    with pytest.raises(ValueError, match="times must hold"):
        sine_run([]).evaluate(0.5)


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


class Pair(NamedTuple):
    first: jax.Array
    second: jax.Array


class Unregistered(eqx.Module):
    field: jax.Array
    label: str = eqx.field(static=True, default="x")


def parameters_run():
    keys = jax.random.split(jax.random.key(1), 4)
    rows = [
        gaussian_parameters(key, 3, scale=1e-2, key_width=2, value_width=4, hidden_width=5)
        for key in keys
    ]
    states = jax.tree.map(lambda *leaf: jnp.stack(leaf), *rows)
    states = eqx.tree_at(
        lambda p: p.W_2,
        states,
        states.W_2.at[0].set(jnp.asarray([jnp.nan, -0.0, 5e-324, jnp.inf, 1])),
    )
    return Trajectory(
        jnp.asarray([0, 1 / 3, 1e-300 + 0.5, 7.0]),
        states,
        Outcome.of("blow_up"),
        rates=jax.tree.map(lambda x: -x / 3, states),
        event_times={"escape": 1 / 3, "onset": 0.1 + 0.2, "never": np.inf},
        trusted=False,
        stats={"accepted": 17, "seconds": 0.1, "drift": np.nan, "top": -np.inf, "solver": "dopri8"},
        clock="rescaled",
    )


def assert_same_bits(first, second):
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()


def test_parameters_round_trip_bit_for_bit(tmp_path):
    run = parameters_run()
    run.save(tmp_path / "trajectory.nc", {"seed": 0})
    back = Trajectory.load(tmp_path / "trajectory.nc")
    assert type(back.states) is Parameters
    assert_same_bits((run.times, run.states, run.rates), (back.times, back.states, back.rates))
    assert back.event_times == {"onset": 0.1 + 0.2, "escape": 1 / 3}
    assert list(back.event_times) == ["onset", "escape"]
    assert back.outcome == "blow_up"
    assert back.trusted is False
    assert back.clock == "rescaled"
    assert repr(back.stats) == repr(run.stats)


def test_same_run_gives_the_same_file(tmp_path):
    for name in ("one.nc", "two.nc"):
        parameters_run().save(tmp_path / name)
    assert (tmp_path / "one.nc").read_bytes() == (tmp_path / "two.nc").read_bytes()


TREES = {
    "bare": jnp.arange(6.0).reshape(3, 2),
    "tuple": (jnp.ones(3), jnp.ones((3, 0))),
    "nested": {"b": [jnp.ones(3), None], "a": {"x y": (jnp.arange(3),), "z": jnp.ones((3, 1))}},
    "float32": [jnp.ones(3, jnp.float32), jnp.asarray([True, False, True]), jnp.arange(3)],
    "module in a tuple": (jnp.ones(3), Parameters(*map(jnp.ones, [(2, 2)] * 4 + [(2,)]))),
}


@pytest.mark.parametrize("states", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize("with_rates", [True, False])
def test_pytrees_round_trip(tmp_path, states, with_rates):
    if isinstance(states, tuple) and isinstance(states[1], Parameters):
        states = (states[0], jax.tree.map(lambda x: jnp.stack([x] * 3), states[1]))
    rates = jax.tree.map(lambda x: x[::-1], states) if with_rates else None
    run = Trajectory([0.0, 1.0, 2.0], states, Outcome.of("event"), rates=rates, clock="steps")
    run.save(tmp_path / "t.nc")
    back = Trajectory.load(tmp_path / "t.nc")
    assert_same_bits((states, rates), (back.states, back.rates))


def test_named_tuples_become_tuples_and_other_modules_dicts(tmp_path):
    states = Pair(jnp.ones(2), Unregistered(jnp.zeros(2)))
    Trajectory([0.0, 1.0], states, Outcome.of("event")).save(tmp_path / "t.nc")
    back = Trajectory.load(tmp_path / "t.nc").states
    assert_same_bits(back, (jnp.ones(2), {"field": jnp.zeros(2)}))


def test_dataset_has_named_axes_and_attributes():
    data = parameters_run().to_xarray({"seed": 3, "scale": 1e-2})
    assert dict(data.sizes) == {"time": 4, "token": 3, "key": 2, "value": 4, "hidden": 5}
    assert data["rate_W_1"].dims == ("time", "value", "hidden")
    assert data["time"].attrs["clock"] == "rescaled"
    assert json.loads(data.attrs["metadata"]) == {"seed": 3, "scale": 1e-2}
    assert json.loads(data.attrs["event_times"])[0] == ["onset", 0.1 + 0.2]
    assert "NaN" not in data.attrs["stats"]


def test_what_cannot_be_stored_is_refused():
    for states, words in [
        (jnp.ones(2, jnp.complex128), "netCDF"),
        (jnp.ones(2, jnp.float16), "netCDF"),
        ({1: jnp.ones(2)}, "keys"),
        ({"a": {"b": jnp.ones(2)}, "a_b": jnp.ones(2)}, "one name"),
    ]:
        with pytest.raises(ValueError, match=words):
            Trajectory([0.0, 1.0], states, Outcome.of("event")).to_xarray()


def test_files_of_another_origin_are_refused(tmp_path):
    path = tmp_path / "t.nc"
    dataset = parameters_run().to_xarray()
    for attribute, value in [
        ("format", "other"),
        ("outcome", "victory"),
        ("clock", "wall"),
        ("structure", '{"kind": "module", "type": "os.system", "items": []}'),
        ("structure", '{"kind": "leaf", "name": "absent", "dtype": "float64"}'),
        ("structure", '{"kind": "leaf", "name": "W_2", "dtype": "float32"}'),
        ("structure", "{"),
        ("stats", "[1]"),
    ]:
        write_netcdf(path, dataset.assign_attrs({attribute: value}))
        with pytest.raises(ValueError, match="path must be a readable flowsim trajectory 1 file"):
            Trajectory.load(path)
    write_netcdf(path, dataset.drop_vars("rate_W_Q"))
    with pytest.raises(ValueError, match="rate_W_Q"):
        Trajectory.load(path)


def test_double_precision_survives_x64_off(tmp_path):
    parameters_run().save(tmp_path / "t.nc")
    with jax.enable_x64(False):
        back = Trajectory.load(tmp_path / "t.nc")
        assert back.states.W_Q.dtype == np.float64
    assert_same_bits(back.states, parameters_run().states)


def test_damaged_trajectories_never_pass(tmp_path):
    """Truncated or flipped anywhere before the last line, a file is refused; never a crash."""
    parameters_run().save(tmp_path / "good.nc")
    good = (tmp_path / "good.nc").read_bytes()
    random = np.random.default_rng(0)
    path = tmp_path / "bad.nc"
    for case in range(200):
        data = bytearray(good)
        if case % 2:
            data = data[: int(random.integers(len(good) - 73))]
        else:
            data[int(random.integers(len(good) - 82))] ^= int(random.integers(1, 256))
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"^path must be a readable [^\n]*$"):
            Trajectory.load(path)
