"""A run in a file and back, bit for bit."""

import json
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.network import Parameters, gaussian_parameters
from flowsim.outcome import Outcome
from flowsim.storage import write_netcdf
from flowsim.trajectory import Trajectory


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
