"""Configurations: defaults, a TOML file, flags and `key=value`, in this order.

A configuration is a frozen dataclass whose fields have defaults; their types are the rules.
Unknown keys are refused, with the nearest known one named. Of two pairs with one key the last
counts.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from flowsim import checks, storage

C = TypeVar("C")


def resolve(
    kind: type[C],
    *,
    file: str | None = None,
    flags: Mapping[str, Any] | None = None,
    pairs: Iterable[str] = (),
) -> C:
    """The configuration from its defaults, then a TOML file, then flags, then `key=value` texts.

    Raises:
        ValueError, TypeError: a key that is not known (the nearest known one is named), a value of
            another type, a text that is not `key=value`, an unreadable file.
    """
    return build(kind, given(file=file, flags=flags, pairs=pairs))


def given(
    *,
    file: str | None = None,
    flags: Mapping[str, Any] | None = None,
    pairs: Iterable[str] = (),
) -> dict[str, Any]:
    """What the user has set, in this order of precedence, lowest first."""
    values: dict[str, Any] = {}
    if file is not None:
        values |= storage.read_toml(file, name="config")
    values |= {key: value for key, value in (flags or {}).items() if value is not None}
    return values | dict(parse_pair(pair) for pair in pairs)


def build(kind: type[C], values: Mapping[str, Any]) -> C:
    """The configuration with these values, checked against the fields' types."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in values:
        checks.choice("configuration key", key, names)
    return kind(**{key: convert(key, value, hints[key]) for key, value in values.items()})


def parse_pair(text: str) -> tuple[str, Any]:
    """`key=value`: the value as JSON or TOML would write it, else a plain word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise checks.fail("override", "read key=value", text)
    try:
        return key.strip(), json.loads(value)
    except json.JSONDecodeError:
        return key.strip(), value.strip()


def convert(key: str, value: Any, hint: Any) -> Any:
    """The value as its field's type: an integer may stand for a real number, nothing else bends."""
    if isinstance(hint, types.UnionType):
        options = [h for h in typing.get_args(hint) if h is not types.NoneType]
        return None if value is None else convert(key, value, options[0])
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{key} must be a list; got {checks.shown(value)}")
        return tuple(convert(key, v, typing.get_args(hint)[0]) for v in value)
    if hint is float:
        return float(checks.number(key, value))
    if hint is int:
        return checks.integer(key, value, low=-(2**63), high=checks.LARGEST_SEED)
    if hint is str and not isinstance(value, str):
        raise TypeError(f"{key} must be text; got {checks.shown(value)}")
    if hint is bool and not isinstance(value, bool):
        raise TypeError(f"{key} must be true or false; got {checks.shown(value)}")
    return value


def to_toml(config: Any, **more: Any) -> str:
    """The configuration as TOML; values that are None are left out (None is their default)."""
    values = dataclasses.asdict(config) | more
    return "".join(f"{key} = {_toml(v)}\n" for key, v in values.items() if v is not None)


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def write(folder: Path, config: Any, **more: Any) -> None:
    """`config.toml` beside the results: what the run was, ready to run again."""
    storage.write_text(folder / "config.toml", to_toml(config, **more))
