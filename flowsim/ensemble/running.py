"""Going through an ensemble shard by shard, in memory or in a folder, alone or with others.

On several machines, start the same script on each with a folder that all can reach, and call
`jax.distributed.initialize()` before the first JAX call (under SLURM it needs no arguments; else
give it coordinator_address, num_processes and process_id); `flowsim census --distributed` does so.
Processes exchange nothing: each writes its own shards, and a lost process leaves the others' shards
valid. JAX ends them all about 100 s after it misses one: start again to fill the gaps. It also ends
them if one waits at its end for longer than shutdown_timeout_seconds (300).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from flowsim import storage
from flowsim.ensemble import shards
from flowsim.ensemble.members import Members, joined
from flowsim.ensemble.sources import Source, shard_size

Notice = Callable[[int], Any]


def ensemble(
    source: Source,
    count: int,
    *,
    folder: Path | None = None,
    size: int | None = None,
    notice: Notice = lambda members: None,
) -> Members | None:
    """The members 0, …, count − 1 of a source.

    With a folder, shards that are there are read and not computed again. Of several processes
    (`jax.distributed`) with one folder, each computes the shards number s with s mod processes =
    process index; the members are returned to whoever finds all shards written, None to the others.

    Args:
        size: members in a shard; the default depends on the source and the count alone.
        notice: called with the number of members of each shard that is done.
    """
    size = shard_size(source, count) if size is None else size
    starts = range(0, count, size)
    if folder is None:
        parts = []
        for first in starts:
            parts.append(source.solve(first, min(first + size, count), size))
            notice(len(parts[-1]))
        return joined(parts)
    identity = identity_of(source, count, size)
    found: dict[int, Members | None] = {}
    mine = range(jax.process_index(), len(starts), jax.process_count())
    for number in mine:
        found[number] = _shard(source, folder, number, starts[number], count, size, identity)
        notice(len(found[number]))  # type: ignore[arg-type]
    for number in range(len(starts)):
        if number not in found:
            length = min(size, count - starts[number])
            found[number] = shards.read_shard(folder, number, length, identity)
            if found[number] is None:
                return None
    return joined([found[number] for number in range(len(starts))])  # type: ignore[misc]


def identity_of(source: Source, count: int, size: int) -> dict[str, Any]:
    """What a folder must agree in to be gone on with."""
    return {**source.identity, "count": count, "shard_size": size}


def _shard(source, folder, number, first, count, size, identity) -> Members:
    """One shard, read if it is there, else computed and written."""
    stop = min(first + size, count)
    members = shards.read_shard(folder, number, stop - first, identity)
    if members is None:
        members = source.solve(first, stop, size)
        shards.write_shard(folder, number, members, identity)
    return members


@contextmanager
def open_ensemble(folder: Path, source: Source, count: int, size: int) -> Iterator[None]:
    """Make the folder of an ensemble, or check that it is one of the same kind.

    Until the block ends it belongs to this process, or to those of `jax.distributed` together.
    """
    shards.adopt(folder, identity_of(source, count, size))
    if jax.process_count() > 1:
        yield
        return
    with storage.claimed(folder):
        storage.remove_temporaries(folder)
        yield
