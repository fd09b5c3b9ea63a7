"""Mutated files and command lines, from seeded draws."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from flowsim import storage

Random = np.random.Generator

#: What a field of a JSON or TOML file, or an option, may turn into.
STRANGE: list[Any] = [
    None, True, -1, 0, 2, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e-320, 1e308, "", "x", "τ",
    "tanh", "digits", "a" * 500, [], [1], [[1]], ["a"], {}, {"a": 1}, "\x00", "../..", "nan",
]  # fmt: skip


def bytes_of(data: bytes, random: Random) -> bytes:
    """Cut, flip, repeat or insert, once to three times."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 4)):
        kind, at = random.integers(4), int(random.integers(len(changed) + 1))
        if kind == 0:
            changed = changed[:at]
        elif kind == 1 and at < len(changed):
            changed[at] ^= int(random.integers(1, 256))
        elif kind == 2:
            changed[at:at] = changed[at : at + int(random.integers(64))]
        else:
            changed[at:at] = random.bytes(int(random.integers(1, 8)))
    return bytes(changed)


def fields_of(fields: dict[str, Any], random: Random) -> dict[str, Any]:
    """Drop, add, rename or replace some of the fields."""
    changed = dict(fields)
    for _ in range(random.integers(1, 3)):
        name = str(random.choice(list(fields)))
        kind = random.integers(4)
        if kind == 0:
            changed.pop(name, None)
        elif kind == 1:
            changed[name[::-1]] = pick(STRANGE, random)
        else:
            changed[name] = pick(STRANGE, random)
    return changed


def arrays_of(arrays: dict[str, np.ndarray], random: Random) -> dict[str, Any]:
    """Drop, cast, cut, scale or spoil one of the arrays; shapes stay few."""
    changed = dict(arrays)
    name = str(random.choice(list(arrays)))
    value = np.array(arrays[name])
    spoiled = value.astype(float)
    spoiled.flat[int(random.integers(value.size))] = pick(
        [np.nan, np.inf, -np.inf, 1e308, 1e-320, 0.0, 2.0], random
    )
    changed[name] = pick(
        [
            spoiled, value * 1e200, value * 1e-200, value * 0, value.astype(complex),
            value[..., :0], value[None], value.sum(), value.astype(str),
            value.astype(np.float16), value > 0, np.array([None]),
            value.astype(">f8"), value[..., ::-1], np.asfortranarray(value),
        ],
        random,
    )  # fmt: skip
    if random.integers(8) == 0:
        del changed[name]
    return changed


def pick(options: Any, random: Random) -> Any:
    """One of them, of whatever type."""
    return options[int(random.integers(len(options)))]


def npz_bytes(arrays: dict[str, Any]) -> bytes:
    """An .npz file; object arrays are pickled, as an attacker would have it."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=True, **arrays)
    return file.getvalue()


def toml_text(fields: dict[str, Any]) -> str:
    """TOML where it can be written so, and what fails to be TOML where it cannot."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def netcdf_bytes(folder: Path, dataset: xarray.Dataset) -> bytes:
    """A netCDF file with a valid digest."""
    path = folder / "valid.nc"
    storage.write_netcdf(path, dataset)
    return path.read_bytes()


def words_of(line: list[str], random: Random) -> list[str]:
    """Drop, repeat, swap, spoil or insert words of a command line."""
    changed = list(line)
    for _ in range(random.integers(1, 4)):
        at = int(random.integers(len(changed))) if changed else 0
        kind = random.integers(5)
        if kind == 0 and changed:
            del changed[at]
        elif kind == 1 and changed:
            changed.insert(at, pick(changed, random))
        elif kind == 2 and changed:
            changed[at] = spoiled(changed[at], random)
        elif kind == 3 and len(changed) > 1:
            changed[at], changed[0] = changed[0], changed[at]
        else:
            changed.insert(at, pick(WORDS, random))
    return changed


#: Words to insert: flags, settings, and what is neither.
WORDS = [
    "--json", "--overwrite", "--out", "--width", "--seed", "--count", "--scale", "--config", "--x",
    "-", "--", "=", "==", "width=2", "seed=-1", "scale=nan", "rate=0.5", "t1=0", "rtol=2", "a=b",
    "task=3", "lanes=0", "shard=0", "solver=euler", "max_steps=1e3", "", " ", "\n", "\x00", "τ",
    "9" * 400, "-1", "1e400", "nan", "inf", "[", "{}", "null", "true", "run", "info", "list",
    "hidden_width=0", "key_width=99999999999", "source=matrices", "preset=paper", "--text",
    "--activation", "relu", "--task", "text:", ".npz", "/dev/null", "/proc/self/mem", "~",
]  # fmt: skip


def spoiled(word: str, random: Random) -> str:
    """A word with characters cut, doubled or replaced."""
    letters: list[str] = list(word)
    change: Callable[[], None] = pick(
        [
            lambda: letters.insert(0, "-"),
            lambda: letters.append(pick("0e.=,:τ\x00\udc80 ", random)),
            letters.clear,
            letters.reverse,
            lambda: letters.extend(letters),
        ],
        random,
    )
    change()
    return "".join(letters)
