"""Weights in files."""

import numpy as np
import pytest

from flowsim import storage


@pytest.fixture
def weights():
    random = np.random.default_rng(1)
    return {
        "W_v": random.normal(size=2),
        "W_1": random.normal(size=(2, 3)),
        "W_2": random.normal(size=3),
    }


def test_weights_from_both_kinds_of_file(tmp_path, weights):
    storage.write_npz(tmp_path / "a.npz", **weights)
    storage.write_json(tmp_path / "a.json", weights | {"comment": "x"})
    for name in ("a.npz", "a.json"):
        for found, value in zip(
            storage.load_weights(tmp_path / name), weights.values(), strict=True
        ):
            assert found.dtype == np.float64
            assert np.array_equal(found, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W_1": [[1, 2]]}, "axis 0 of W_1 has length 1 where W_v has length 2"),
        ({"W_2": [1]}, "axis 1 of W_1 has length 3 where W_2 has length 1"),
        ({"W_1": [[1, 2, 3], [1]]}, "W_1 must be a rectangular array of real numbers"),
        ({"W_v": ["1", "2"]}, "W_v must be a rectangular array of real numbers"),
        ({"W_v": [True, False]}, "W_v must be a rectangular array of real numbers"),
        ({"W_v": {"a": 1}}, "W_v must be a rectangular array of real numbers"),
        ({"W_v": [1, None]}, "W_v must be a rectangular array of real numbers"),
        ({"W_v": []}, "W_v must have 1 axes, none empty"),
        ({"W_2": 3.0}, "W_2 must have 1 axes, none empty"),
    ],
)
def test_weights_that_are_not_weights(tmp_path, weights, change, message):
    storage.write_json(tmp_path / "a.json", weights | change)
    with pytest.raises(ValueError, match=message):
        storage.load_weights(tmp_path / "a.json")


def test_weights_that_are_not_finite_or_not_there(tmp_path, weights):
    storage.write_npz(tmp_path / "a.npz", **weights | {"W_2": np.array([1, np.nan, 2])})
    with pytest.raises(ValueError, match="W_2 must be finite"):
        storage.load_weights(tmp_path / "a.npz")
    storage.write_npz(tmp_path / "b.npz", W_v=[1.0])
    with pytest.raises(ValueError, match=r"input must be .* W_1, W_2 missing"):
        storage.load_weights(tmp_path / "b.npz", name="input")
    storage.write_json(tmp_path / "c.json", [1, 2])
    with pytest.raises(ValueError, match="W_v, W_1, W_2 missing"):
        storage.load_weights(tmp_path / "c.json")
    with pytest.raises(ValueError, match=r"input must be a file named \.npz or \.json"):
        storage.load_weights(tmp_path / "c.txt", name="input")
