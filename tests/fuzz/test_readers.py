"""Mutated files end in a value or in one line, whichever reader takes them."""

import gc
import re

import mutation
import numpy as np
import pytest
import xarray

from flowsim import storage

ONE_LINE = re.compile(r"[^\n\r]{10,400}")
READERS = {
    "a.npz": storage.read_npz,
    "a.json": storage.read_json,
    "a.toml": storage.read_toml,
    "a.nc": storage.read_netcdf,
    "a.txt": storage.read_text,
}


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


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", READERS)
def test_mutated_files_end_in_a_value_or_in_one_line(tmp_path, name):
    valid_files(tmp_path)
    path, random = tmp_path / name, np.random.default_rng(2025)
    valid = path.read_bytes()
    READERS[name](path)
    refused = 0
    for _ in range(100):
        path.write_bytes(mutation.bytes_of(valid, random))
        refused += bool(message := complaint(READERS[name], path))
        assert message is None or ONE_LINE.fullmatch(message)
    gc.collect()
    assert refused > 0
