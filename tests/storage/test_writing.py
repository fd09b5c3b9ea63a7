"""Files are whole or absent."""

import json
import os
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_helpers import ONE_LINE, names, opened

from flowsim import storage
from flowsim.storage.writing import TEMPORARY


def test_writers_leave_one_file_each(tmp_path):
    storage.write_bytes(tmp_path / "a.bin", b"\0\1")
    storage.write_text(tmp_path / "a.txt", "τ̄ = κεt\n")
    storage.write_json(tmp_path / "a.json", {"a": 1})
    storage.write_npz(tmp_path / "a.npz", a=np.arange(3))
    storage.write_netcdf(tmp_path / "a.nc", xarray.Dataset({"a": ("x", [1.0])}))
    assert names(tmp_path) == ["a.bin", "a.json", "a.nc", "a.npz", "a.txt"]
    assert (tmp_path / "a.bin").read_bytes() == b"\0\1"
    assert storage.read_text(tmp_path / "a.txt") == "τ̄ = κεt\n"


@pytest.mark.parametrize("moment", ["in the block", "before the replace"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_no_temporary(tmp_path, monkeypatch, moment, error):
    path = tmp_path / "a.txt"
    storage.write_text(path, "old")

    def fail(*args):
        raise error

    if moment == "before the replace":
        monkeypatch.setattr(os, "replace", fail)

    def write():
        with storage.whole_file(path) as temporary:
            temporary.write_text("half")
            if moment == "in the block":
                fail()

    with pytest.raises(error):
        write()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


WRITER = """
import sys
from flowsim import storage
print("ready", flush=True)
while True:
    for letter in "ab":
        storage.write_text(sys.argv[1], letter * 3_000_000)
"""


def test_sigkill_leaves_a_whole_file_and_a_temporary_that_the_next_start_removes(tmp_path):
    path = tmp_path / "a.txt"
    for delay in (0.05, 0.11, 0.17):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout.readline() == "ready\n"
        while not path.exists() and writer.poll() is None:
            time.sleep(0.01)
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        text = path.read_text()
        assert len(text) == 3_000_000
        assert len(set(text)) == 1
    assert all(TEMPORARY.fullmatch(name) for name in names(tmp_path) if name != "a.txt")
    opened(tmp_path)
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    "place", ["absent/a.txt", "folder", "file/a.txt", "a" * 300, "nul\0byte", "\ud800", "/dev/null"]
)
def test_places_that_cannot_be_written_are_named(tmp_path, place):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^out must be ") as caught:
        storage.write_text(tmp_path / place, "text", name="out")
    assert ONE_LINE.fullmatch(str(caught.value))
    assert names(tmp_path) == ["file", "folder"]


def test_file_permissions_follow_the_umask(tmp_path):
    (tmp_path / "plain").write_text("")
    storage.write_text(tmp_path / "ours", "")
    assert (tmp_path / "plain").stat().st_mode == (tmp_path / "ours").stat().st_mode


def test_json_is_strict_and_takes_arrays(tmp_path):
    value = {
        "nan": np.nan,
        "inf": [jnp.inf, -np.inf, np.float32("nan")],
        "int": np.int64(3),
        "bool": np.bool_(True),
        "array": np.array([[1.0, np.nan]]),
        "jax": jnp.arange(2),
        "scalar": jnp.asarray(0.1),
        "path": tmp_path,
        "tuple": (None, "τ"),
        3: {"b"},
        "surrogate": "\udc80",
    }
    storage.write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    found = json.loads(text, parse_constant=pytest.fail)
    assert found == {
        "nan": None,
        "inf": [None, None, None],
        "int": 3,
        "bool": True,
        "array": [[1.0, None]],
        "jax": [0, 1],
        "scalar": 0.1,
        "path": str(tmp_path),
        "tuple": [None, "τ"],
        "3": ["b"],
        "surrogate": "\udc80",
    }
    with pytest.raises(TypeError, match="a JSON value must be made of"):
        storage.write_json(tmp_path / "b.json", {"a": object()})
    assert names(tmp_path) == ["a.json"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(json_values)
def test_json_round_trip(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "a.json"
    storage.write_json(path, value)
    assert storage.read_json(path) == value


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, bool, np.complex128])
def test_npz_round_trip(tmp_path, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    storage.write_npz(tmp_path / "a.npz", array=array, empty=np.zeros((0, 2)), name="path")
    found = storage.read_npz(tmp_path / "a.npz")
    assert list(found) == ["array", "empty"]
    assert found["array"].dtype == dtype
    assert np.array_equal(found["array"], array)


def test_object_arrays_are_neither_written_nor_read(tmp_path):
    path = tmp_path / "a.npz"
    with pytest.raises(TypeError, match="a must be an array of numbers"):
        storage.write_npz(path, a=np.array([None]))
    for value in (np.array([{}]), np.array(["text"]), np.array([(1, 2)], dtype="i4,i4")):
        np.savez(path, a=value)
        with pytest.raises(ValueError, match=r"path must be a readable \.npz file"):
            storage.read_npz(path)
