"""Any text file as data: windows of bytes or words, and what follows each."""

import os
from collections.abc import Collection
from itertools import islice
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from flowsim import checks
from flowsim.tasks.sequences import Sequences, host_generator
from flowsim.tasks.task import Task
from flowsim.tasks.tokens import BYTES, UNITS, Vocabulary, byte_numbers, words
from flowsim.tasks.windows import reservoir

#: Classes of characters by name.
CLASSES = {
    "space": " \t\n\r",
    "vowel": "aeiouAEIOU",
    "digit": "0123456789",
    "capital": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "letter": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
}
#: The class of words that is asked for without a choice: the most frequent ones.
FREQUENT = 32


def text(
    path: str | os.PathLike,
    width: int = 16,
    *,
    unit: str = "byte",
    length: int = 16,
    samples: int = 1000,
    label: str | Collection[str] | None = None,
    vocabulary: int = 10_000,
    key: Any = None,
) -> Task:
    """A UTF-8 text as a binary task: is the token after the window of a chosen class (+1)?

    Tokens are embedded by a fixed Gaussian table with entries N(0, 1/d). The file is read a piece
    at a time, so it need not fit in memory.

    Args:
        path: the file.
        width: token width d.
        unit: "byte", or "word" (split at white space, rare words become `<unk>`).
        length: tokens a window, s.
        samples: windows, drawn from all places of the text (all of them if it has no more).
        label: the class: for bytes one of "space", "vowel", "digit", "capital", "letter", or ASCII
            characters; for words a collection of words. By default spaces, and the 32 most
            frequent words.
        vocabulary: how many different words are told apart, at most; those of the class always.
        key: of windows and embedding; None is `jax.random.key(0)`.

    Raises:
        ValueError: a file that is missing, empty or not UTF-8, a window longer than the text, a
            class that never or always occurs.
    """
    key = jax.random.key(0) if key is None else checks.key("key", key)
    window_key, table_key = jax.random.split(key)
    book = _vocabulary(path, unit, vocabulary, _words_of(label))
    data = text_sequences(path, length=length, samples=samples, vocabulary=book, key=window_key)
    chosen = _class_numbers(label, book)
    hits = np.isin(np.asarray(data.answers), chosen)
    if hits.all() or not hits.any():
        how = "always" if hits.any() else "never"
        rule = "be a class that follows some windows and not others"
        default = "space" if book is None else f"the {FREQUENT} most frequent words"
        shown = f"{default} (the default)" if label is None else label
        raise checks.fail("label", rule, f"{shown}, which {how} occurs")
    return data.task(width, np.where(hits, 1.0, -1.0), key=table_key, name="text")


def text_sequences(
    path: str | os.PathLike,
    *,
    length: int,
    samples: int,
    vocabulary: Vocabulary | None = None,
    key: Any,
) -> Sequences:
    """Windows of a text with the token that follows each, drawn evenly from all places.

    One pass over the file with a reservoir of `samples` windows.

    Args:
        length: tokens a window.
        samples: windows; fewer if the text has no more.
        vocabulary: of words; None takes bytes.
        key: of the draw.

    Raises:
        ValueError: as for `text`.
    """
    s = checks.integer("length", length)
    wanted = checks.integer("samples", samples)
    checks.key("key", key)
    if vocabulary is None:
        stream, size = byte_numbers(path), BYTES
    else:
        stream, size = vocabulary.numbered(words(path)), len(vocabulary)
    kept = reservoir(stream, s + 1, wanted, host_generator(key))
    if len(kept) == 0:
        parts = byte_numbers(path) if vocabulary is None else vocabulary.numbered(words(path))
        count = sum(part.size for part in parts)
        if count == 0:
            raise checks.fail("path", "be a text that is not empty", os.fspath(path))
        rule = f"leave a token after the window in a text of {count} tokens"
        raise checks.fail("length", rule, s)
    return _windows(kept, size)


def text_parts(
    path: str | os.PathLike,
    *,
    length: int,
    samples: tuple[int, int],
    share: float,
    vocabulary: Vocabulary,
    key: Any,
) -> tuple[Sequences, Sequences]:
    """(training part, validation part): windows of words of the first `share` of a text, and of
    the rest, so that no word belongs to windows of both. Otherwise as `text_sequences`.

    Args:
        length: tokens a window.
        samples: windows of both parts, at most.
        share: strictly between 0 and 1.
        vocabulary: of this text; it knows how many words there are.
        key: of the draws.

    Raises:
        ValueError: a part that has no window with a token after it, an unreadable text.
    """
    s = checks.integer("length", length)
    cut = round(vocabulary.total * checks.between("share", share, 0.0, 1.0))
    rng, stream = host_generator(checks.key("key", key)), words(path)
    kept = [
        reservoir(vocabulary.numbered(part), s + 1, checks.integer("samples", count), rng)
        for part, count in zip((islice(stream, cut), stream), samples, strict=True)
    ]
    if not all(map(len, kept)):
        sizes = f"{cut} and {vocabulary.total - cut} tokens"
        raise checks.fail("length", f"leave a token after the window in parts of {sizes}", s)
    first, second = (_windows(rows, len(vocabulary)) for rows in kept)
    return first, second


def _windows(rows: Int[np.ndarray, "n s"], vocabulary: int) -> Sequences:
    """Runs of numbers as sequences; the last of each is the answer."""
    return Sequences(rows[:, :-1], rows[:, -1], vocabulary)


def _words_of(label: Any) -> list[str]:
    """A class of words as a list; nothing for the default."""
    if label is None:
        return []
    return label.split() if isinstance(label, str) else list(label)


def _vocabulary(
    path: str | os.PathLike, unit: str, size: int, keep: list[str]
) -> Vocabulary | None:
    if checks.choice("unit", unit, UNITS) == "byte":
        return None
    return Vocabulary.of(path, size, keep)


def _class_numbers(label: Any, vocabulary: Vocabulary | None) -> list[int]:
    """Token numbers of the class."""
    if vocabulary is not None:
        if label is None:
            return list(range(1, min(FREQUENT + 1, len(vocabulary))))
        return [vocabulary.numbers[word] for word in _words_of(label) if word in vocabulary.numbers]
    found = "space" if label is None else label
    characters = CLASSES.get(found, found) if isinstance(found, str) else "".join(found)
    if not characters or not characters.isascii():
        rule = f"be one of {', '.join(CLASSES)}, or ASCII characters"
        raise checks.fail("label", rule, label)
    return list(characters.encode())
