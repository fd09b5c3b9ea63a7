"""The anchor function, against its rule written out sequence by sequence."""

import jax
import numpy as np
import pytest

from flowsim import tasks
from flowsim.tasks.sequences import Sequences


@pytest.mark.parametrize("rule", ["synonymous", "shift"])
def test_every_answer_follows_the_rule(rule):
    data = tasks.anchor_sequences(300, rule=rule)
    tokens, answers = np.asarray(data.tokens), np.asarray(data.answers)
    assert tokens.shape == (300, 10)
    for row, answer in zip(tokens, answers, strict=True):
        (place,) = [j for j, token in enumerate(row) if token in (1, 2, 3, 4)]
        assert place <= 8
        keys = np.delete(row, place)
        assert keys.min() >= 5
        assert keys.max() <= 100
        shift = row[place] if rule == "shift" else row[place] % 2
        assert answer == row[place + 1] + shift
    assert data.vocabulary == 201


def test_anchors_places_and_keys_are_uniform():
    tokens = np.asarray(tasks.anchor_sequences(20_000, key=jax.random.key(4)).tokens)
    rows, places = np.nonzero(tokens < 5)
    for found, cells in ((tokens[rows, places], 4), (places, 9)):
        counts = np.bincount(found - found.min(), minlength=cells)
        expected = 20_000 / cells
        # χ² with at most 8 degrees of freedom exceeds 26.1 with probability 0.001
        assert np.sum((counts - expected) ** 2 / expected) < 26.1


def test_the_split_deals_out_every_sequence_once():
    data = tasks.anchor_sequences(50)
    first, second = data.split(0.8, key=jax.random.key(1))
    assert (first.size, second.size) == (40, 10)
    both = np.concatenate([first.tokens, second.tokens])
    order = lambda rows: rows[np.lexsort(rows.T)]  # noqa: E731
    np.testing.assert_array_equal(order(both), order(np.asarray(data.tokens)))


def test_the_binary_task_asks_for_the_upper_half():
    task = tasks.anchor(40, 12, key=jax.random.key(3))
    data = tasks.anchor_sequences(40, key=jax.random.split(jax.random.key(3))[0])
    assert task.X.shape == (40, 10, 12)
    np.testing.assert_array_equal(task.y, np.where(np.asarray(data.answers) >= 53, 1, -1))
    # one number has one vector
    flat, numbers = np.asarray(task.X).reshape(-1, 12), np.asarray(data.tokens).ravel()
    for number in np.unique(numbers)[:5]:
        assert np.ptp(flat[numbers == number], axis=0).max() == 0
    assert np.mean(np.sum(flat**2, axis=1)) == pytest.approx(1, rel=0.2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tasks.anchor_sequences(5, length=1), "length must be an integer >= 2; got 1"),
        (lambda: tasks.anchor_sequences(5, rule="shifts"), "did you mean 'shift'"),
        (lambda: Sequences([[0, 7]], [1], 7), "tokens must be token numbers from 0 to 6; got 7"),
        (lambda: Sequences([[0, 1]], [1, 1], 7), "answers has length 2 where axis 0 of tokens"),
        (
            lambda: tasks.anchor_sequences(5).split(0.05, key=jax.random.key(0)),
            "share must leave both parts a sequence out of 5; got 0.05",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
