"""Readers end in a value or in one line."""

import io
import os
import subprocess
import sys
import warnings
import zipfile

import h5netcdf
import numpy as np
import pytest
import xarray
from storage_helpers import ONE_LINE, names

from flowsim import storage
from flowsim.storage.reading import EXPANSION, SMALL
from flowsim.storage.writing import STAMP, file_digest

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


def test_toml(tmp_path):
    (tmp_path / "a.toml").write_text("a = 1\n[b]\nc = inf\n")
    assert storage.read_toml(tmp_path / "a.toml") == {"a": 1, "b": {"c": float("inf")}}
    (tmp_path / "a.toml").write_text("a = 1\na = 2\n")
    with pytest.raises(ValueError, match=r"path must be a readable TOML file \(Cannot overwrite"):
        storage.read_toml(tmp_path / "a.toml")
