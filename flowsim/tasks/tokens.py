"""Text as a stream of tokens: its bytes, or its words."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

import numpy as np

from flowsim import checks, storage

UNITS = ("byte", "word")
UNKNOWN = "<unk>"
BYTES = 256
#: A word that goes on for longer is none, and would have to be held in memory.
LONGEST = 1 << 20
#: So many words are numbered together.
PIECE = 1 << 16
#: So many different words are counted, more than texts of a few gigabytes have.
DISTINCT = 1 << 22


def words(path: str | os.PathLike) -> Iterator[str]:
    """The words of a UTF-8 file, split at white space, read a piece at a time.

    Raises:
        ValueError: an unreadable file; a word of more than `LONGEST` characters that goes on.
    """
    rest = ""
    for piece in storage.text_pieces(path):
        *whole, rest = (rest + piece + "\0").split()
        rest = rest[:-1]
        yield from whole
        if len(rest) > LONGEST:
            rule = f"be a text with white space between words of at most {LONGEST} characters"
            raise checks.fail("path", rule, os.fspath(path))
    if rest:
        yield rest


def byte_numbers(path: str | os.PathLike) -> Iterator[np.ndarray]:
    """The UTF-8 bytes of a file as numbers, a piece at a time."""
    for piece in storage.text_pieces(path):
        yield np.frombuffer(piece.encode("utf-8"), np.uint8)


def counted(stream: Iterable[str], keep: Collection[str] = ()) -> tuple[Counter[str], int]:
    """How often each word of a stream occurs, and how many words there are.

    Where more than `DISTINCT` are told apart, the rarest so far are forgotten (but for those to
    keep), so that the memory is bounded: counts are then low for words that were rare at first.
    """
    counts: Counter[str] = Counter()
    total, rare, words = 0, 0, iter(stream)
    while piece := list(islice(words, PIECE)):
        counts.update(piece)
        total += len(piece)
        while len(counts) > DISTINCT:
            rare += 1
            counts = Counter({w: n for w, n in counts.items() if n > rare or w in keep})
    return counts, total


class Vocabulary:
    """The most frequent words of a text, numbered by falling frequency; 0 is `<unk>`.

    Args:
        counts: word → how often it occurs.
        size: how many numbers there are at most, `<unk>` among them.
        keep: words that are not cut, however rare.
        total: words of the text, where that is more than the counts hold.

    Raises:
        ValueError: no word is left beside `<unk>`; more words to keep than there are numbers.
    """

    def __init__(
        self,
        counts: Counter[str],
        size: int,
        keep: Collection[str] = (),
        total: int | None = None,
    ):
        size = checks.integer("vocabulary", size, low=2)
        keep = {word for word in keep if word in counts}
        if len(keep) >= size:
            raise checks.fail("vocabulary", f"have room for the {len(keep)} words to keep", size)
        words = [word for word in counts if word != UNKNOWN]
        words.sort(key=lambda word: (word not in keep, -counts[word], word))
        known = [(word, counts[word]) for word in words[: size - 1]]
        known.sort(key=lambda item: (-item[1], item[0]))
        if not known:
            raise checks.fail("vocabulary", f"keep a word beside {UNKNOWN}", dict(counts))
        self.words = [UNKNOWN, *(word for word, _ in known)]
        self.numbers = {word: number for number, word in enumerate(self.words)}
        self.total = sum(counts.values()) if total is None else total
        frequencies = [count for _, count in known]
        #: How often each number occurs in the text, as a share of all its words.
        self.shares = np.array([self.total - sum(frequencies), *frequencies]) / self.total

    @classmethod
    def of(cls, path: str | os.PathLike, size: int, keep: Collection[str] = ()) -> "Vocabulary":
        """The vocabulary of a file, counted in one pass.

        Raises:
            ValueError: a text without words, besides what the vocabulary and `words` raise.
        """
        counts, total = counted(words(path), keep)
        if not counts:
            raise checks.fail("path", "be a text that is not empty", os.fspath(path))
        return cls(counts, size, keep, total)

    def __len__(self) -> int:
        return len(self.words)

    def entropy(self) -> float:
        """The unigram entropy −Σ p log p of the numbered text, in nats: what a model that knows
        the frequencies alone loses a token."""
        p = self.shares[self.shares > 0]
        return float(-np.sum(p * np.log(p)))

    def number(self, word: str) -> int:
        """The number of a word; 0 for one that is not known."""
        return self.numbers.get(word, 0)

    def numbered(self, stream: Iterable[str]) -> Iterator[np.ndarray]:
        """The numbers of a stream of words, a piece at a time."""
        words = iter(stream)
        while piece := list(islice(words, PIECE)):
            yield np.fromiter(map(self.number, piece), np.int32, len(piece))
