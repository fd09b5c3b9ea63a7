"""Whole-or-absent files: a temporary in the same folder, fsync, `os.replace`."""

import hashlib
import io
import json
import math
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flowsim import checks

#: Names of unfinished files; nothing else that flowsim meets in a folder is taken for one.
TEMPORARY = re.compile(r"\.flowsim-[0-9a-f]{16}\.partial(\.[^/]*)?")
#: Last line of a netCDF file: a digest of all before it (HDF5 ignores what follows its own end).
STAMP = b"\nflowsim-sha256:"


@contextmanager
def whole_file(path: str | os.PathLike, *, name: str = "path") -> Iterator[Path]:
    """A temporary path to write to; it becomes `path` when the block ends without an exception.

    A reader, or a run that is killed at any moment, sees the old file or the new one.

    Raises:
        ValueError: the place cannot be written; the message starts with `name`.
    """
    path = usable_path(name, path)
    temporary = temporary_path(path.parent, path.suffix)
    try:
        if path.exists() and not path.is_file():
            raise checks.fail(name, "be a file to write, not a folder or device", str(path))
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise unwritable(name, path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def usable_path(name: str, path: str | os.PathLike) -> Path:
    """A path that the file system can be asked about."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError as error:
        raise checks.fail(name, "be a path the file system can spell", str(path)) from error
    if not encoded or b"\0" in encoded:
        raise checks.fail(name, "be a path, not empty and without null bytes", str(path))
    return Path(path)


def temporary_path(folder: Path, suffix: str = "") -> Path:
    """A fresh name that `TEMPORARY` knows; the suffix stays for writers that go by it."""
    return folder / f".flowsim-{secrets.token_hex(8)}.partial{suffix}"


def unwritable(name: str, path: Path, error: OSError) -> ValueError:
    """The exception for a place that cannot be written."""
    reason = error.strerror or " ".join(str(error).split())[:120]
    return checks.fail(name, f"be a place that can be written ({reason})", str(path))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the file system has folders to sync."""
    with suppress(OSError):
        _sync(folder)


def write_bytes(path: str | os.PathLike, data: bytes, *, name: str = "path") -> None:
    """Write bytes, whole or not at all."""
    with whole_file(path, name=name) as temporary, open(temporary, "xb") as file:
        file.write(data)


def write_text(path: str | os.PathLike, text: str, *, name: str = "path") -> None:
    """Write UTF-8 text, whole or not at all."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"), name=name)


def write_json(path: str | os.PathLike, value: Any, *, name: str = "path") -> None:
    """Write strict JSON (`json_text`), whole or not at all."""
    write_text(path, json_text(value) + "\n", name=name)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Strict JSON: NaN and infinity become null; NumPy and JAX values are accepted."""
    return json.dumps(plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def plain(value: Any) -> Any:
    """The same value of dicts, lists, strings, numbers, booleans and None only."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    raise TypeError(f"a JSON value must be made of numbers, text, lists and dicts; got {value!r}")


def write_npz(path: str | os.PathLike, *, name: str = "path", **arrays: Any) -> None:
    """Write named arrays of numbers as .npz, whole or not at all."""
    made = {key: np.asarray(value) for key, value in arrays.items()}
    for key, value in made.items():
        if value.dtype.kind not in "biufc":
            raise TypeError(f"{key} must be an array of numbers; got dtype {value.dtype}")
    with whole_file(path, name=name) as temporary, open(temporary, "xb") as file:
        np.savez(file, allow_pickle=False, **made)


def write_netcdf(path: str | os.PathLike, dataset: Any, *, name: str = "path") -> None:
    """Write an `xarray.Dataset` as netCDF-4, bit for bit, whole or not at all.

    A digest follows the end of the data, so that damage is told before HDF5 reads it.
    """
    encoding = {key: {"_FillValue": None} for key in dataset.variables}
    with whole_file(path, name=name) as temporary:
        with Target(temporary) as target:
            dataset.to_netcdf(target, engine="h5netcdf", format="NETCDF4", encoding=encoding)
        if target.failure is not None:
            raise target.failure
        digest = file_digest(temporary)
        with open(temporary, "ab") as file:
            file.write(STAMP + digest + b"\n")


class Target(io.FileIO):
    """A new file for the HDF5 library, which crashes the process at its end if it could not close
    a file: after the first failure (a full disk) all further writes are taken and dropped."""

    failure: OSError | None = None

    def __init__(self, path: Path):
        super().__init__(path, "xb+")

    def write(self, data: Any) -> int:
        """All of the data."""
        left = memoryview(data).cast("B")
        try:
            while left and self.failure is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.failure = error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        """To this size, if the file system has room."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.failure = self.failure or error
            return 0


def file_digest(path: Path, length: int | None = None) -> bytes:
    """SHA-256 of a file, or of its first bytes, in hexadecimal."""
    digest = hashlib.sha256()
    left = path.stat().st_size if length is None else length
    with open(path, "rb") as file:
        while left and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest().encode()
