"""Windows of a text's first part and of its rest, against the list of its words."""

from collections import Counter

import jax
import numpy as np
import pytest
from scipy.stats import entropy

from flowsim.tasks import text_parts
from flowsim.tasks.tokens import Vocabulary

S = 4


@pytest.fixture
def numbered(tmp_path):
    """A text whose words, 60 of them, are all different."""
    path = tmp_path / "numbered.txt"
    path.write_text(" ".join(f"w{i:02d}" for i in range(60)))
    return path


def parts(path, vocabulary=100, **options):
    book = Vocabulary.of(path, vocabulary)
    options = {"length": S, "samples": (99, 99), "share": 0.8} | options
    return book, text_parts(path, vocabulary=book, key=jax.random.key(0), **options)


def test_parts_are_all_windows_of_their_side(numbered):
    book, (first, second) = parts(numbered)
    words = numbered.read_text().split()
    for part, side in ((first, words[:48]), (second, words[48:])):
        rows = np.column_stack([part.tokens, part.answers])
        found = {tuple(book.words[i] for i in row) for row in rows}
        assert found == {tuple(side[i : i + S + 1]) for i in range(len(side) - S)}
        assert part.vocabulary == 61


def test_samples_are_drawn_from_each_side(numbered):
    _, (first, second) = parts(numbered, samples=(7, 5))
    assert (first.size, second.size) == (7, 5)
    assert len({tuple(row) for row in np.asarray(first.tokens)}) == 7


def test_shares_and_entropy_are_those_of_the_cut_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a a a a b b b c c <unk> d e")
    book = Vocabulary.of(path, 4)
    counts = Counter(book.words[book.number(w)] for w in path.read_text().split())
    expected = np.array([counts[word] for word in book.words]) / 12
    np.testing.assert_allclose(book.shares, expected, rtol=1e-15)
    assert book.entropy() == pytest.approx(entropy(expected), rel=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 50}, "length must leave a token after the window in parts of 48 and 12 tokens"),
        ({"share": 0.95}, "in parts of 57 and 3 tokens; got 4"),
        ({"share": 1.0}, "share must lie in"),
        ({"samples": (3, 0)}, "samples must be an integer >= 1; got 0"),
        ({"vocabulary": 1}, "vocabulary must be an integer >= 2"),
    ],
)
def test_bad_input_is_named(numbered, options, message):
    with pytest.raises(ValueError, match=message):
        parts(numbered, **options)


def test_a_vocabulary_cut_to_nothing_is_named(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("<unk> <unk> <unk>")
    with pytest.raises(ValueError, match="vocabulary must keep a word beside <unk>"):
        parts(path)
