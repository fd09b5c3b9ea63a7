"""The sources of tasks: digits, the planted Gaussian task, .npz files."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from flowsim import tasks
from flowsim.storage import write_npz


@pytest.fixture(scope="module")
def digits():
    return tasks.digits(width=16)


def separation(task):
    """max Σ y_i x̄_i·β over y_i x̄_i·β ≥ 0, ‖β‖_∞ ≤ 1: zero when x̄ does not separate the labels
    (theory.md, section 6)."""
    signed = np.asarray(task.y)[:, None] * np.asarray(task.mean_tokens)
    bounds = [(-1, 1)] * task.width
    return -linprog(-signed.sum(0), A_ub=-signed, b_ub=np.zeros(task.size), bounds=bounds).fun


def plateau(task):
    """β* and the loss there, of L(β) = mean exp(−y x̄·β), by BFGS."""
    signed = np.asarray(task.y)[:, None] * np.asarray(task.mean_tokens)

    def loss(beta):
        terms = np.exp(-signed @ beta)
        return terms.mean(), -terms @ signed / task.size

    found = minimize(loss, np.zeros(task.width), jac=True, method="BFGS", tol=1e-10)
    return found.x, found.fun


def key_query_matrix(task):
    """F of [CL 15] at β*, up to its constant factor, with loops over samples."""
    beta, _ = plateau(task)
    X, y = np.asarray(task.X), np.asarray(task.y)
    F = np.zeros((task.width, task.width))
    for tokens, label in zip(X, y, strict=True):
        mean = tokens.mean(0)
        weight = label * np.exp(-label * mean @ beta)
        F += weight * np.outer(tokens[-1], beta @ (tokens.T @ (tokens - mean)))
    return F


def test_digits_are_even_against_odd(digits):
    from sklearn.datasets import load_digits

    target = load_digits().target
    assert digits.X.shape == (1797, 8, 16)
    assert np.array_equal(digits.y, 1.0 - 2.0 * (target % 2))
    assert digits.name == "digits"


def test_digits_are_an_affine_image_of_the_pixels(digits):
    """Tokens minus positions have rank 8 and the geometry of the pixel rows under one map."""
    from sklearn.datasets import load_digits

    pixels = load_digits().images / 16
    X = np.asarray(digits.X)
    design = np.concatenate([pixels, np.broadcast_to(np.eye(8), (1797, 8, 8))], axis=2)
    fit, *_ = np.linalg.lstsq(design.reshape(-1, 16), X.reshape(-1, 16), rcond=None)
    assert np.allclose(design @ fit, X, rtol=0, atol=1e-12)
    assert 0.5 < np.sqrt(np.mean(np.sum(X**2, axis=2))) < 4


def test_digits_have_both_stages(digits):
    assert separation(digits) < 1e-9
    assert 0.85 < plateau(digits)[1] < 0.95
    sigma = np.linalg.svd(key_query_matrix(digits), compute_uv=False)
    assert sigma[0] > 1.1 * sigma[1]


def test_digits_are_fixed_by_the_key(digits):
    assert np.array_equal(tasks.digits(16).X, digits.X)
    assert not np.array_equal(tasks.digits(16, key=jax.random.key(1)).X, digits.X)
    assert tasks.digits(width=3).width == 3


@pytest.mark.parametrize("width", [0, -3])
def test_widths_are_checked(width):
    with pytest.raises(ValueError, match="width must be an integer >= 1"):
        tasks.digits(width)
    with pytest.raises(ValueError, match="width must be an integer >= 3"):
        tasks.gaussian(width=width)
    with pytest.raises(TypeError, match="width"):
        tasks.digits(2.5)


def test_a_missing_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'flowsim\[data\]'"):
        tasks.digits()


@pytest.mark.parametrize("seed", range(4))
def test_gaussian_task_has_both_stages(seed):
    """The strength is twice that of shuffled labels, x̄ does not separate, F points to the map."""
    task = tasks.gaussian(key=jax.random.key(seed))
    shuffled = np.random.default_rng(seed).permuted(np.tile(task.y, (50, 1)), axis=1)
    noise = np.linalg.norm(shuffled @ task.mean_tokens, axis=1).mean() / task.size
    assert task.strength > 2 * noise
    assert separation(task) < 1e-9
    sigma = np.linalg.svd(key_query_matrix(task), compute_uv=False)
    assert sigma[0] > 1.5 * sigma[1]


def test_gaussian_labels_follow_the_selected_token():
    """With many samples, the directions that tokens vary along are found from X alone (variance
    4, 4, 1 against 0.09), and an independent evaluation of the rule gives every label."""
    task = tasks.gaussian(samples=4000, length=4, width=6, key=jax.random.key(7))
    X, y = np.asarray(task.X), np.asarray(task.y)
    variance = np.linalg.eigvalsh(np.cov(X[:, :-1].reshape(-1, 6).T))
    assert np.allclose(variance, [0.09, 0.09, 0.09, 1, 4, 4], rtol=0.06)
    frame_key, _ = jax.random.split(jax.random.key(7))
    q, k, u = np.linalg.qr(np.asarray(jax.random.normal(frame_key, (6, 3))))[0].T
    for tokens, label in zip(X[:200], y[:200], strict=True):
        scores = [tokens[-1] @ q * (k @ token) for token in tokens[:-1]]
        selected = tokens[int(np.argmax(scores))]
        assert label == np.sign(u @ (selected + 0.5 * 2 * tokens.mean(0)))
        assert abs(tokens[-1] @ u) < 1e-14


def test_gaussian_task_is_fixed_by_the_key():
    assert np.array_equal(tasks.gaussian().X, tasks.gaussian(key=jax.random.key(0)).X)
    assert tasks.gaussian(samples=40, length=4, width=4).X.shape == (40, 4, 4)


def test_load_reads_what_was_written(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 3, 2))
    y = np.array([1, -1, 1, 1, -1], dtype=np.int8)
    write_npz(tmp_path / "mine.npz", X=X, y=y, other=np.ones(2))
    task = tasks.load(tmp_path / "mine.npz")
    assert np.array_equal(task.X, X)
    assert np.array_equal(task.y, y.astype(float))
    assert task.name == "mine"
    assert task.y.dtype == jnp.float64


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((2, 2, 2))}, r"path must be an .npz file with X and y; .* without y \("),
        ({"a": np.ones(1)}, r"without X and y \(it holds a\)"),
        ({}, r"without X and y \(it holds nothing\)"),
        ({"X": np.ones((2, 2, 2)), "y": np.array([1, 0])}, "y must hold labels"),
        ({"X": np.ones((2, 2)), "y": np.array([1, -1])}, "X must have 3 axes"),
    ],
)
def test_load_names_what_is_wrong(tmp_path, arrays, message):
    write_npz(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        tasks.load(tmp_path / "mine.npz")


def test_load_of_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"path must be a readable .npz file \(No such file"):
        tasks.load(tmp_path / "absent.npz")
