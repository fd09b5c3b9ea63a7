"""Files are whole or absent; readers end in a value or in one line; folders finish."""

import gc
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
import zipfile

import h5netcdf
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from flowsim import storage
from flowsim.storage.reading import EXPANSION, SMALL
from flowsim.storage.writing import STAMP, TEMPORARY, file_digest

ONE_LINE = re.compile(r"[^\n\r]{10,400}")


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def opened(*arguments, **more):
    """The folder as a run finds it."""
    with storage.open_folder(*arguments, **more) as folder:
        return folder


# Writing


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


# Reading

READERS = {
    "a.npz": storage.read_npz,
    "a.json": storage.read_json,
    "a.toml": storage.read_toml,
    "a.nc": storage.read_netcdf,
    "a.txt": storage.read_text,
}


@pytest.mark.parametrize("name", READERS)
def test_missing_files_folders_and_pipes_are_refused(tmp_path, name):
    reader = READERS[name]
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for place in ("absent", "folder", "pipe", "nul\0byte", "a" * 300):
        with pytest.raises(ValueError, match=r"^input must be a readable ") as caught:
            reader(tmp_path / place, name="input")
        assert ONE_LINE.fullmatch(str(caught.value))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "a.json").chmod(0)
    with pytest.raises(ValueError, match="Permission denied"):
        storage.read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("NaN", "NaN is not JSON"),
        ("[1, -Infinity]", "-Infinity is not JSON"),
        ("[1e999]", "1e999 is beyond the range of a float"),
        ('{"a": 1, "a": 2}', "'a' stands twice in one object"),
        ("[" * 100_000, "recursion"),
        ("1" * 5000, "4300"),
        ("", "Expecting value"),
        ("{'a': 1}", "property name"),
    ],
)
def test_json_that_is_not_strict_is_refused(tmp_path, text, why):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=f"path must be a readable JSON file .*{why}"):
        storage.read_json(tmp_path / "a.json")


def test_text_must_be_utf_8_and_of_a_sane_size(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match="can't decode"):
        storage.read_json(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(b"\xef\xbb\xbf[1]")
    assert storage.read_json(tmp_path / "b.json") == [1]
    with open(tmp_path / "large.txt", "wb") as file:
        file.truncate(2**31)
    with pytest.raises(ValueError, match="larger than"):
        storage.read_text(tmp_path / "large.txt")


def test_zip_bombs_are_refused_before_they_are_unpacked(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f8", "fortran_order": False, "shape": (SMALL // 4,)}
        )
        with archive.open("a.npy", "w") as member:
            member.write(header.getvalue())
            for _ in range(2 * SMALL // 2**20):
                member.write(bytes(2**20))
    assert path.stat().st_size * EXPANSION < 2 * SMALL
    with pytest.raises(ValueError, match="bytes that declare"):
        storage.read_npz(path)


def test_headers_that_claim_more_than_they_hold_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(80))
    with pytest.raises(ValueError, match="path must be a readable"):
        storage.read_npz(path)


def test_names_that_stand_twice_in_an_archive_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    member = io.BytesIO()
    np.save(member, np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", member.getvalue())
            archive.writestr("a", member.getvalue())
    with pytest.raises(ValueError, match="'a' stands twice"):
        storage.read_npz(path)


def test_a_netcdf_file_that_declares_too_much_is_refused(tmp_path):
    """Even with a valid digest: 8 TiB of chunks that nobody wrote."""
    path = tmp_path / "a.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"x": 2**40}
        file.create_variable("a", ("x",), "f8", chunks=(1024,))
    path.write_bytes(path.read_bytes() + STAMP + file_digest(path) + b"\n")
    with pytest.raises(ValueError, match="bytes that declare"):
        storage.read_netcdf(path)


FULL = """
import resource, sys
import numpy as np, xarray
from flowsim import storage
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
dataset = xarray.Dataset({name: ("x", np.arange(5000.0)) for name in "abc"})
try:
    storage.write_netcdf(sys.argv[1], dataset, name="out")
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("room", [300, 60_000])
def test_a_disk_that_fills_up_under_a_netcdf_file_is_one_line_and_no_crash(room, tmp_path):
    command = [sys.executable, "-c", FULL, str(tmp_path / "a.nc"), str(room)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr[-500:]
    assert ended.stdout.startswith("out must be a place that can be written (File too large)")
    assert names(tmp_path) == []


def test_netcdf_files_of_other_programs_are_refused(tmp_path):
    """HDF5 may loop for ever on damaged bytes, so nothing without a digest is opened."""
    xarray.Dataset({"a": ("x", [1.0])}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="no digest at its end"):
        storage.read_netcdf(tmp_path / "a.nc")


def test_xarray_reads_our_netcdf_files(tmp_path):
    """The digest behind the data disturbs no other reader."""
    dataset = xarray.Dataset({"a": ("x", [1.0, -0.0])})
    storage.write_netcdf(tmp_path / "a.nc", dataset)
    assert xarray.load_dataset(tmp_path / "a.nc", engine="h5netcdf").identical(dataset)


def valid_files(folder):
    storage.write_npz(folder / "a.npz", X=np.random.default_rng(0).normal(size=(4, 3)), y=[1, -1])
    storage.write_json(folder / "a.json", {"W_v": [1.0, 2.5], "W_1": [[1, 2]], "n": {"a": None}})
    storage.write_text(folder / "a.toml", 'task = "digits"\n[a]\nb = [1, 2.5]\nc = 1979-05-27\n')
    storage.write_text(folder / "a.txt", "a b c\nτ̄ κ ε\n" * 20)
    dataset = xarray.Dataset({"a": (("x", "y"), np.arange(6.0).reshape(2, 3))}, attrs={"j": "{}"})
    storage.write_netcdf(folder / "a.nc", dataset)


def complaint(reader, path):
    """What the reader says against the file, or None; any other exception fails the test."""
    try:
        reader(path)
    except ValueError as error:
        return str(error)
    return None


def mutate(data, random):
    """Cut, flip, repeat or insert."""
    data = bytearray(data)
    for _ in range(random.integers(1, 4)):
        kind, at = random.integers(4), int(random.integers(len(data) + 1))
        if kind == 0:
            data = data[:at]
        elif kind == 1 and at < len(data):
            data[at] ^= int(random.integers(1, 256))
        elif kind == 2:
            data[at:at] = data[at : at + int(random.integers(64))]
        else:
            data[at:at] = random.bytes(int(random.integers(1, 8)))
    return bytes(data)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", READERS)
def test_mutated_files_end_in_a_value_or_in_one_line(tmp_path, name):
    valid_files(tmp_path)
    path, random = tmp_path / name, np.random.default_rng(2025)
    valid = path.read_bytes()
    READERS[name](path)
    refused = 0
    for _ in range(100):
        path.write_bytes(mutate(valid, random))
        refused += bool(message := complaint(READERS[name], path))
        assert message is None or ONE_LINE.fullmatch(message)
    gc.collect()
    assert refused > 0


def test_toml(tmp_path):
    (tmp_path / "a.toml").write_text("a = 1\n[b]\nc = inf\n")
    assert storage.read_toml(tmp_path / "a.toml") == {"a": 1, "b": {"c": float("inf")}}
    (tmp_path / "a.toml").write_text("a = 1\na = 2\n")
    with pytest.raises(ValueError, match=r"path must be a readable TOML file \(Cannot overwrite"):
        storage.read_toml(tmp_path / "a.toml")


# Weights


@pytest.fixture
def weights():
    random = np.random.default_rng(1)
    return {
        "W_v": random.normal(size=2),
        "W_1": random.normal(size=(2, 3)),
        "W_2": random.normal(size=3),
    }


def test_weights_from_both_kinds_of_file(tmp_path, weights):
    storage.write_npz(tmp_path / "a.npz", **weights)
    storage.write_json(tmp_path / "a.json", weights | {"comment": "x"})
    for name in ("a.npz", "a.json"):
        for found, value in zip(
            storage.load_weights(tmp_path / name), weights.values(), strict=True
        ):
            assert found.dtype == np.float64
            assert np.array_equal(found, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W_1": [[1, 2]]}, "axis 0 of W_1 has length 1 where W_v has length 2"),
        ({"W_2": [1]}, "axis 1 of W_1 has length 3 where W_2 has length 1"),
        ({"W_1": [[1, 2, 3], [1]]}, "W_1 must be a rectangular array of real numbers"),
        ({"W_v": ["1", "2"]}, "W_v must be a rectangular array of real numbers"),
        ({"W_v": [True, False]}, "W_v must be a rectangular array of real numbers"),
        ({"W_v": {"a": 1}}, "W_v must be a rectangular array of real numbers"),
        ({"W_v": [1, None]}, "W_v must be a rectangular array of real numbers"),
        ({"W_v": []}, "W_v must have 1 axes, none empty"),
        ({"W_2": 3.0}, "W_2 must have 1 axes, none empty"),
    ],
)
def test_weights_that_are_not_weights(tmp_path, weights, change, message):
    storage.write_json(tmp_path / "a.json", weights | change)
    with pytest.raises(ValueError, match=message):
        storage.load_weights(tmp_path / "a.json")


def test_weights_that_are_not_finite_or_not_there(tmp_path, weights):
    storage.write_npz(tmp_path / "a.npz", **weights | {"W_2": np.array([1, np.nan, 2])})
    with pytest.raises(ValueError, match="W_2 must be finite"):
        storage.load_weights(tmp_path / "a.npz")
    storage.write_npz(tmp_path / "b.npz", W_v=[1.0])
    with pytest.raises(ValueError, match=r"input must be .* W_1, W_2 missing"):
        storage.load_weights(tmp_path / "b.npz", name="input")
    storage.write_json(tmp_path / "c.json", [1, 2])
    with pytest.raises(ValueError, match="W_v, W_1, W_2 missing"):
        storage.load_weights(tmp_path / "c.json")
    with pytest.raises(ValueError, match=r"input must be a file named \.npz or \.json"):
        storage.load_weights(tmp_path / "c.txt", name="input")


# Folders


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    folder = opened(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert names(folder) == []
    assert not storage.is_finished(folder)


def test_a_finished_folder_is_refused_unless_overwritten(tmp_path):
    storage.write_json(tmp_path / "summary.json", {})
    storage.write_text(tmp_path / "trajectory.nc", "")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"^out must be a folder without a summary\.json"):
        opened(tmp_path)
    assert names(tmp_path) == ["notes.txt", "summary.json", "trajectory.nc"]
    opened(tmp_path, overwrite=True, names=["trajectory.nc", "absent"])
    assert names(tmp_path) == ["notes.txt"]


def test_only_our_own_temporaries_are_removed(tmp_path):
    (tmp_path / "figures").mkdir()
    theirs = [".flowsim-x.partial", "a.partial", ".flowsim-0123456789abcdef.partial.d"]
    ours = [".flowsim-0123456789abcdef.partial", "figures/.flowsim-00000000000000ff.partial.png"]
    for name in theirs[:2] + ours:
        (tmp_path / name).write_text("")
    (tmp_path / theirs[2]).mkdir()
    opened(tmp_path)
    assert names(tmp_path) == sorted([*theirs, "figures"])
    assert names(tmp_path / "figures") == []


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/flowsim", "nul\0byte", "a" * 300])
def test_folders_that_cannot_be_used_are_named(tmp_path, place):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match=r"^out must be ") as caught:
        opened(tmp_path / place)
    assert ONE_LINE.fullmatch(str(caught.value))
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_in_place_of_the_summary_is_refused(tmp_path):
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(ValueError, match=r"^out must be"):
        opened(tmp_path, overwrite=True)
    with pytest.raises(ValueError, match=r"^out must be a path, not empty"):
        opened("")


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path):
    out = tmp_path / "out"
    with storage.open_folder(out):
        (out / ".flowsim-0123456789abcdef.partial").write_text("being written")
        for overwrite in (False, True):
            with (
                pytest.raises(ValueError, match="out must be a folder in which no other run is"),
                storage.open_folder(out, overwrite),
            ):
                pass
        assert names(out) == [".flowsim-0123456789abcdef.partial"]
    with storage.open_folder(out):
        assert names(out) == []


def test_where_no_locks_are_known_nothing_is_kept_out(tmp_path, monkeypatch):
    def unknown(*args):
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.flock", unknown)
    with storage.claimed(tmp_path), storage.claimed(tmp_path):
        pass
