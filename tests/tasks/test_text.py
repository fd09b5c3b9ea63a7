"""Text files as tasks: windows, classes, and files that cannot be used."""

import os
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest

from flowsim import storage, tasks
from flowsim.tasks import tokens
from flowsim.tasks.tokens import LONGEST, Vocabulary, byte_numbers, words
from flowsim.tasks.windows import reservoir

LINE = "the quick brown fox jumps over the lazy dog and the cat \n"


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(LINE * 40, encoding="utf-8")
    return path


def test_pieces_give_the_text_whatever_their_size(tmp_path):
    path = tmp_path / "accents.txt"
    content = "été — naïve\tœuvre 東京\n\n und \0 so\x85weiter " * 3
    path.write_text(content, encoding="utf-8-sig")
    for size in (1, 2, 3, 7, 1000):
        assert "".join(storage.text_pieces(path, size=size)) == content
    assert list(words(path)) == content.split()
    assert b"".join(map(bytes, byte_numbers(path))) == content.encode()


def test_words_are_whole_across_pieces(tmp_path, monkeypatch):
    path = tmp_path / "long.txt"
    path.write_text(LINE * 50, encoding="utf-8")
    pieces = storage.text_pieces
    monkeypatch.setattr(storage, "text_pieces", lambda path: pieces(path, size=5))
    assert list(words(path)) == (LINE * 50).split()


def test_windows_stand_in_the_text_and_so_do_their_answers(book):
    data = tasks.text_sequences(book, length=6, samples=50, key=jax.random.key(1))
    content = book.read_bytes()
    for row, answer in zip(np.asarray(data.tokens), np.asarray(data.answers), strict=True):
        assert bytes([*row.tolist(), int(answer)]) in content
    assert data.tokens.shape == (50, 6)
    few = tasks.text_sequences(book, length=len(content) - 3, samples=50, key=jax.random.key(1))
    assert few.size == 3


@pytest.mark.parametrize("cut", [1, 3, 7, 1000])
@pytest.mark.parametrize(("length", "wanted"), [(1, 10), (4, 10), (4, 500), (300, 10)])
def test_a_reservoir_is_that_of_the_plain_algorithm_however_the_stream_is_cut(cut, length, wanted):
    stream = np.arange(200)
    windows = [stream[i : i + length] for i in range(len(stream) - length + 1)]
    plain, rng = windows[:wanted], np.random.default_rng(5)
    for count, window in enumerate(windows[wanted:], start=wanted + 1):
        if (place := int(rng.random() * count)) < wanted:
            plain[place] = window
    pieces = [stream[i : i + cut] for i in range(0, len(stream), cut)]
    found = reservoir(pieces, length, wanted, np.random.default_rng(5))
    np.testing.assert_array_equal(found, np.array(plain).reshape(-1, length))


def test_windows_come_evenly_from_all_places(tmp_path):
    path = tmp_path / "numbered.txt"
    path.write_text(" ".join(f"w{i:04d}" for i in range(1000)), encoding="utf-8")
    vocabulary = Vocabulary.of(path, 2000)
    place = {vocabulary.number(f"w{i:04d}"): i for i in range(1000)}
    seen = Counter()
    for seed in range(20):
        data = tasks.text_sequences(
            path, length=1, samples=100, vocabulary=vocabulary, key=jax.random.key(seed)
        )
        seen.update(place[int(token)] // 100 for token in np.asarray(data.tokens)[:, 0])
    counts = np.array([seen[i] for i in range(10)])
    # χ² with 9 degrees of freedom exceeds 27.9 with probability 0.001
    assert np.sum((counts - 200) ** 2 / 200) < 27.9


def test_labels_are_the_class_of_the_next_token(book):
    task = tasks.text(book, 8, length=4, samples=60, label="vowel", key=jax.random.key(2))
    windows = tasks.text_sequences(
        book, length=4, samples=60, key=jax.random.split(jax.random.key(2))[0]
    )
    follows = [chr(answer) in "aeiou" for answer in np.asarray(windows.answers)]
    np.testing.assert_array_equal(task.y, np.where(follows, 1, -1))
    words_task = tasks.text(book, 8, unit="word", length=3, samples=60, label=["the", "nowhere"])
    assert words_task.X.shape == (60, 3, 8)
    assert np.mean(np.asarray(words_task.y) > 0) == pytest.approx(3 / 12, abs=0.15)


def test_a_vocabulary_keeps_the_most_frequent_words():
    vocabulary = Vocabulary(Counter({"b": 3, "a": 3, "c": 9, "<unk>": 50, "d": 1}), 4)
    assert vocabulary.words == ["<unk>", "c", "a", "b"]
    assert [vocabulary.number(word) for word in ("c", "d", "<unk>")] == [1, 0, 0]


def test_words_of_the_class_are_told_apart_however_rare(tmp_path):
    path = tmp_path / "rare.txt"
    path.write_text("a a a b b zebra " * 9)
    task = tasks.text(path, 4, unit="word", length=1, vocabulary=3, label=["zebra", "nowhere"])
    assert np.mean(np.asarray(task.y) > 0) == pytest.approx(9 / 53)
    counts = Counter({"a": 3, "b": 2, "zebra": 1})
    assert Vocabulary(counts, 3, ["zebra", "nowhere"]).words == ["<unk>", "a", "zebra"]
    with pytest.raises(ValueError, match="vocabulary must have room for the 2 words to keep"):
        Vocabulary(counts, 2, ["a", "zebra"])


def test_counts_forget_the_rarest_of_too_many_words(monkeypatch):
    stream = ["kept", *[f"w{i}" for i in range(300)], *["often", "more"] * 50, "more"]
    exact = tokens.counted(stream, ["kept"])
    assert exact == (Counter(stream), len(stream))
    monkeypatch.setattr(tokens, "DISTINCT", 20)
    monkeypatch.setattr(tokens, "PIECE", 10)
    counts, total = tokens.counted(stream, ["kept"])
    assert len(counts) <= 20
    assert (counts["kept"], counts["often"], counts["more"]) == (1, 50, 51)
    shares = Vocabulary(counts, 3, total=total).shares
    np.testing.assert_allclose(shares, np.array([301, 51, 50]) / 402, rtol=1e-15)


def test_a_text_without_white_space_is_not_held_in_memory(tmp_path):
    path = tmp_path / "endless.txt"
    path.write_text("x" * (2 * LONGEST + 1))
    with pytest.raises(ValueError, match="path must be a text with white space between words"):
        tasks.text(path, 4, unit="word")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "path must be a text that is not empty"),
        (b" \n ", {"unit": "word"}, "path must be a text that is not empty"),
        (b"caf\xe9 and more", {}, "path must be a readable UTF-8 text file"),
        (b"caf\xc3", {}, "path must be a readable UTF-8 text file"),
        (b"short", {"length": 5}, "length must leave a token after the window in a text of 5"),
        (b"fine \xc3\xa9" * 200_000 + b"\xff", {}, "byte 0xff at place 1400000: invalid start"),
        (b"abcdef", {"length": 2}, r"got 'space \(the default\), which never occurs'"),
        (b"no digit here", {"length": 2, "label": "digit"}, "got 'digit, which never occurs'"),
        (b"aaaaaaaa", {"length": 2, "label": "a"}, "got 'a, which always occurs'"),
        (b"some text", {"length": 2, "label": "é"}, "label must be one of space, vowel"),
        (b"some text", {"length": 2, "label": ""}, "label must be one of space, vowel"),
        (b"a b c", {"unit": "word", "length": 1, "label": []}, r"got '\[\], which never occurs'"),
        (b"some text", {"unit": "words"}, "unit must be one of byte, word .did you mean 'word'"),
        (b"<unk> <unk>", {"unit": "word", "length": 1}, "vocabulary must keep a word beside <unk>"),
    ],
)
def test_bad_input_is_named_in_one_line(tmp_path, content, options, message):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        tasks.text(path, 4, **options)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"path must be a readable UTF-8 text file .No such file"):
        tasks.text(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="a folder"):
        tasks.text(tmp_path)


def test_real_text():
    """A file of real text, where FLOWSIM_TEXT names one."""
    path = os.environ.get("FLOWSIM_TEXT")
    if not path or not Path(path).is_file():
        pytest.skip("set FLOWSIM_TEXT to the path of a UTF-8 text, such as WikiText-2's valid.txt")
    task = tasks.text(path, 8, unit="word", samples=200)
    assert task.X.shape == (200, 16, 8)
    assert 0.1 < np.mean(np.asarray(task.y) > 0) < 0.9
