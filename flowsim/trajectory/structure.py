"""How a pytree of states is written down in a file and built again, without pickle."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import numpy as np

from flowsim import checks

#: Module types that a file may name, with the dimensions of their fields (`register_state`).
STATE_TYPES: dict[str, tuple[type, dict[str, tuple[str, ...]]]] = {}


def register_state(cls: type, dimensions: dict[str, tuple[str, ...]]) -> None:
    """Let trajectories of this `eqx.Module` be saved and loaded as what they are.

    A file can name registered types alone: nothing is imported or run on its word.

    Args:
        cls: a Module that is built from its fields by name.
        dimensions: names of the axes of each field, without time.
    """
    STATE_TYPES[cls.__name__] = (cls, dimensions)


def describe(tree: Any, name: str = "") -> dict[str, Any]:
    """A JSON description of a pytree; its leaves name the variables of the file.

    Named tuples become tuples; Modules that nobody registered become dicts of their fields.
    """
    if tree is None:
        return {"kind": "none"}
    if isinstance(tree, eqx.Module):
        kind = type(tree).__name__
        known = kind in STATE_TYPES and STATE_TYPES[kind][0] is type(tree)
        return _branch("module" if known else "dict", _fields(tree), name) | (
            {"type": kind} if known else {}
        )
    if isinstance(tree, Mapping):
        if not all(isinstance(key, str) for key in tree):
            raise checks.fail("states", "have text for the keys of its dicts", list(tree))
        return _branch("dict", dict(sorted(tree.items())), name)
    if isinstance(tree, tuple | list):
        kind = "list" if isinstance(tree, list) else "tuple"
        return _branch(kind, {str(i): item for i, item in enumerate(tree)}, name)
    dtype = np.asarray(tree).dtype
    if dtype.kind not in "biuf" or dtype.itemsize not in (1, 2, 4, 8) or dtype == np.float16:
        raise checks.fail("states", "hold arrays that netCDF can store", f"dtype {dtype}")
    return {"kind": "leaf", "name": name or "state", "dtype": dtype.name}


def _fields(module: eqx.Module) -> dict[str, Any]:
    fields = dataclasses.fields(module)  # type: ignore[arg-type]
    return {f.name: getattr(module, f.name) for f in fields if not f.metadata.get("static", False)}


def _branch(kind: str, items: dict[str, Any], name: str) -> dict[str, Any]:
    """Variables are named after the way to them: W_Q in Parameters, state_0 in a tuple."""
    prefix = f"{name}_" if name else ("" if kind == "module" else "state_")
    described = [
        [key, describe(item, prefix + (key if key.isidentifier() or key.isdecimal() else f"{i}"))]
        for i, (key, item) in enumerate(items.items())
    ]
    return {"kind": kind, "items": described}


def leaves(description: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The descriptions of the leaves, in the order of the file."""
    if description["kind"] == "leaf":
        yield description
    for _, item in description.get("items", []):
        yield from leaves(item)


def leaf_values(tree: Any) -> Iterator[Any]:
    """The leaves of a pytree in the order of `leaves(describe(tree))`."""
    if isinstance(tree, eqx.Module):
        tree = list(_fields(tree).values())
    if isinstance(tree, Mapping):
        tree = [item for _, item in sorted(tree.items())]
    if isinstance(tree, tuple | list):
        for item in tree:
            yield from leaf_values(item)
    elif tree is not None:
        yield tree


def dimensions(description: Mapping[str, Any], shapes: Mapping[str, tuple]) -> dict[str, tuple]:
    """Names of the axes of every variable: those registered, else one name an axis."""
    if description["kind"] == "leaf":
        name = description["name"]
        return {name: tuple(f"{name}_axis_{i}" for i in range(1, len(shapes[name])))}
    if description["kind"] == "module":
        registered = STATE_TYPES[description["type"]][1]
        return {item["name"]: registered[key] for key, item in description["items"]}
    found: dict[str, tuple] = {}
    for _, item in description.get("items", []):
        found |= dimensions(item, shapes)
    return found


def build(description: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """The pytree that was described, from the values of its leaves by name.

    Raises:
        ValueError: a description that `describe` does not make.
    """
    kind = description["kind"]
    if kind == "leaf":
        return values[description["name"]]
    if kind == "none":
        return None
    items = {key: build(item, values) for key, item in description["items"]}
    if kind == "dict":
        return items
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(items.values())
    if kind == "module" and description["type"] in STATE_TYPES:
        return _module(STATE_TYPES[description["type"]][0], items)
    raise ValueError(f"unknown kind of state {checks.shown(description)}")


def _module(cls: type, items: dict[str, Any]) -> Any:
    """Fields keep their leading time axis; one row of zeros goes through the type's own checks."""
    row = cls(**{key: np.zeros(np.shape(item)[1:]) for key, item in items.items()})
    return eqx.tree_at(lambda m: [getattr(m, key) for key in items], row, list(items.values()))


def variables(tree: Any, description: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Leaves by the name of their variable."""
    names = [item["name"] for item in leaves(description)]
    if len(set(names)) < len(names):
        raise checks.fail("states", "have keys that give one name a leaf", names)
    return dict(zip(names, map(np.asarray, leaf_values(tree)), strict=True))
