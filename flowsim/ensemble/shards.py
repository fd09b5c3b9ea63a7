"""Shards on disk: whole or absent, checked when read, and of one configuration only."""

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flowsim import checks, storage
from flowsim.ensemble.members import Members
from flowsim.storage.writing import unwritable

IDENTITY = "census.json"
FOLDER = "shards"
FIELDS = {"time": "f8", "lower": "f8", "verdict": "i1", "energy": "f8", "steps": "i4"}


def adopt(folder: Path, identity: Mapping[str, Any]) -> None:
    """Mark a folder as that of an ensemble, or check that it is.

    Raises:
        ValueError: it holds another ensemble (the message says in what they differ) or something
            else altogether.
    """
    path = folder / IDENTITY
    foreign = (folder / FOLDER).exists() or storage.is_finished(folder)
    if path.exists():  # asked second: another process may write it at this moment
        _compare(folder, storage.read_json(path, name="out"), identity)
    elif foreign:
        raise checks.fail("out", f"be a new folder or one with a {IDENTITY}", str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            storage.write_json(path, dict(identity), name="out")
        (folder / FOLDER).mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable("out", folder, error) from error


def stored(folder: Path) -> dict[str, Any] | None:
    """The identity of the ensemble in a folder, if there is one."""
    path = folder / IDENTITY
    found = storage.read_json(path, name="out") if path.exists() else None
    return found if isinstance(found, dict) else None


def _compare(folder: Path, there: Any, here: Mapping[str, Any]) -> None:
    there = there if isinstance(there, dict) else {}
    keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
    if keys:
        words = [f"{key} {there.get(key)!r} there, {here.get(key)!r} here" for key in keys]
        raise checks.fail("out", f"hold the same census ({'; '.join(words)})", str(folder))


def fingerprint(identity: Mapping[str, Any]) -> np.ndarray:
    """A digest of the identity, to stand in every shard."""
    text = storage.json_text(dict(identity), indent=None)
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)


def shard_path(folder: Path, number: int) -> Path:
    """The file of one shard."""
    return folder / FOLDER / f"{number:08d}.npz"


def write_shard(folder: Path, number: int, members: Members, identity: Mapping[str, Any]) -> None:
    """Write one shard; a full disk leaves nothing behind and is a `ValueError`."""
    arrays = {name: np.asarray(getattr(members, name)) for name in FIELDS}
    storage.write_npz(
        shard_path(folder, number),
        name="out",
        number=np.int64(number),
        fingerprint=fingerprint(identity),
        **arrays,
    )


def read_shard(
    folder: Path, number: int, length: int, identity: Mapping[str, Any]
) -> Members | None:
    """One shard, or None if it is not there or not to be trusted (a warning says so)."""
    path = shard_path(folder, number)
    if not path.exists():
        return None
    try:
        found = storage.read_npz(path, name="shard")
        problem = _problem(found, number, length, identity)
    except storage.UnreadableError as error:
        problem = str(error)
    if problem is None:
        return Members(**{name: found[name] for name in FIELDS})
    warnings.warn(f"shard {number} is computed again: {problem}", stacklevel=2)
    return None


def _problem(
    found: Mapping[str, np.ndarray], number: int, length: int, identity: Mapping[str, Any]
) -> str | None:
    """What is wrong with a shard."""
    if not np.array_equal(found.get("fingerprint", []), fingerprint(identity)):
        return "it belongs to another census"
    if int(found.get("number", -1)) != number:
        return "it is another shard's file"
    for name, kind in FIELDS.items():
        array = found.get(name)
        if array is None or array.dtype != np.dtype(kind) or array.shape != (length,):
            return f"its {name} is not {length} numbers"
    return None
