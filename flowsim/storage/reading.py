"""Readers that take no file at its word: each ends in a value or in one `ValueError`."""

import io
import json
import math
import os
import stat
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from flowsim import checks
from flowsim.storage.writing import STAMP, file_digest

#: A file may declare this many bytes of data, or `EXPANSION` times its own size if that is more.
SMALL = 64 * 2**20
EXPANSION = 100
#: Text files (JSON, TOML, corpora) are read whole up to this size.
LARGEST_TEXT = 2**30


class UnreadableError(ValueError):
    """A file that is missing, damaged, or not what it should be."""


@contextmanager
def reading_errors(name: str, path: str | os.PathLike, kind: str) -> Iterator[None]:
    """Whatever goes wrong while a file is read becomes one line: argument, rule, value.

    Parsers raise anything on damaged input (struct.error, RecursionError, MemoryError, …); this is
    the one place where all of it is caught.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except UnreadableError:
        raise
    except Exception as error:
        raise refusal(name, path, kind, reason(error)) from error


def refusal(name: str, path: str | os.PathLike, kind: str, why: str) -> UnreadableError:
    """The exception for a file that breaks a rule."""
    return UnreadableError(
        f"{name} must be a readable {kind} file ({why}); got {checks.shown(str(path))}"
    )


def reason(error: Exception) -> str:
    """What an exception says, on one short line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = "".join(c if c.isprintable() else " " for c in text)
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."


def regular(name: str, path: str | os.PathLike, kind: str) -> Path:
    """An existing regular file: a folder has no data, and a pipe could block for ever."""
    path = Path(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise refusal(name, path, kind, "a folder" if path.is_dir() else "not a regular file")
    return path


def read_text(path: str | os.PathLike, *, name: str = "path", kind: str = "text") -> str:
    """A UTF-8 text file; a byte order mark is dropped."""
    with reading_errors(name, path, kind):
        path = regular(name, path, kind)
        if path.stat().st_size > LARGEST_TEXT:
            raise refusal(name, path, kind, f"larger than {LARGEST_TEXT} bytes")
        return path.read_bytes().decode("utf-8-sig")


def read_json(path: str | os.PathLike, *, name: str = "path") -> Any:
    """Strict JSON: no NaN, no infinity, no name twice in one object."""
    text = read_text(path, name=name, kind="JSON")
    with reading_errors(name, path, "JSON"):
        return json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_constant=_no_constant,
            parse_float=_finite,
        )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{checks.shown(key)} stands twice in one object")
        found[key] = value
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is beyond the range of a float")
    return value


def read_toml(path: str | os.PathLike, *, name: str = "path") -> dict[str, Any]:
    """A TOML file."""
    import tomllib

    text = read_text(path, name=name, kind="TOML")
    with reading_errors(name, path, "TOML"):
        return tomllib.loads(text)


def read_npz(path: str | os.PathLike, *, name: str = "path") -> dict[str, np.ndarray]:
    """All arrays of an .npz file; numbers only, nothing is unpickled, checksums are verified."""
    with reading_errors(name, path, ".npz"):
        path = regular(name, path, ".npz")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_size(name, path, ".npz", sum(member.file_size for member in members))
            found: dict[str, np.ndarray] = {}
            for member in members:
                key = member.filename.removesuffix(".npy")
                if key in found:
                    raise ValueError(f"{checks.shown(key)} stands twice")
                found[key] = _npy(key, archive.read(member))
            return found


def _npy(key: str, data: bytes) -> np.ndarray:
    value = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    if value.dtype.kind not in "biufc":
        raise ValueError(f"{checks.shown(key)} has dtype {value.dtype}, not numbers")
    return value


def _check_size(name: str, path: Path, kind: str, declared: int) -> None:
    """Refuse before loading what unpacks to far more than the file holds."""
    size = path.stat().st_size
    if declared > max(SMALL, EXPANSION * size):
        raise refusal(name, path, kind, f"{size} bytes that declare {declared} bytes of data")


def read_netcdf(path: str | os.PathLike, *, name: str = "path") -> Any:
    """An `xarray.Dataset` that `write_netcdf` wrote, with nothing decoded.

    Its digest is checked first: on damaged bytes the HDF5 library itself may loop for ever. A
    file that another program wrote or changed has no valid digest; open it with xarray.
    """
    import xarray

    with reading_errors(name, path, "netCDF"):
        path = regular(name, path, "netCDF")
        _check_stamp(name, path)
        with xarray.open_dataset(path.absolute(), engine="h5netcdf", decode_cf=False) as dataset:
            _check_size(name, path, "netCDF", int(dataset.nbytes))
            return dataset.load()


def _check_stamp(name: str, path: Path) -> None:
    """The digest at the end must be there, and be that of the data before it."""
    length = len(STAMP) + 65
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - length))
        tail = file.read()
    if not tail.startswith(STAMP):
        why = "cut short, damaged, or not written by flowsim: no digest at its end"
        raise refusal(name, path, "netCDF", why)
    if file_digest(path, end - length) != tail[len(STAMP) : -1]:
        raise refusal(name, path, "netCDF", "damaged: its digest does not match its data")
