"""The decoder on a text at toy size: the whole figure, the claims' logic, the losses, bad input."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.cli import main
from flowsim.experiments.paper import presets, running, text_first_stage, text_training, wikitext
from flowsim.experiments.paper.laboratory import Laboratory

TOY = {
    "text_width": 6, "text_hidden_width": 6, "text_length": 5, "text_windows": 150,
    "text_validation": 40, "text_steps": 8, "text_batch_size": 20, "text_moments": 4,
    "text_vocabulary": 20, "task_samples": 20, "task_width": 4, "task_length": 3,
    "scales": (3e-3, 1e-3), "seeds": (1,),
}  # fmt: skip


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A thousand words, the k-th with frequency 1/k."""
    rng, p = np.random.default_rng(0), 1 / np.arange(1, 61)
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text(" ".join(f"w{i}" for i in rng.choice(60, 1000, p=p / p.sum())))
    return path


@pytest.fixture(scope="module")
def preset():
    return presets.preset_of("small", TOY)


@pytest.fixture(scope="module")
def text(preset, book):
    return text_training.read(preset, str(book))


@pytest.fixture(scope="module")
def descent(preset, text):
    return text_training.train(preset, text, 1)


def test_the_figure_is_whole_and_its_theorems_hold(preset, book, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "FORMATS", ("png",))
    (summary,) = running.run("wikitext", Laboratory(preset, str(book)), tmp_path)
    stored = json.loads((tmp_path / "wikitext" / "summary.json").read_text())
    held = {claim["text"]: claim["held"] for claim in stored["claims"]}
    assert len(held) == len(summary["claims"]) == 13
    for text in held:
        if "gradient" in text or "have moved by O(ε²)" in text:
            assert held[text], text
    table = (tmp_path / "wikitext" / "wikitext.csv").read_text()
    assert table.count("W_Q") == 2
    assert (tmp_path / "wikitext" / "wikitext.png").stat().st_size > 0


def test_losses_are_those_of_plain_evaluation(preset, text, descent, monkeypatch):
    monkeypatch.setattr(text_training, "CHUNK", 15)
    steps, losses = text_training.validation_losses(text, descent)
    final = descent.final
    net = text.loss.network(final)
    assert steps[-1] == preset.text_steps
    expected = eqx.filter_jit(net.loss)(final["layers"], text.validation)
    assert losses[-1] == pytest.approx(float(expected), rel=1e-5)
    np.testing.assert_array_equal(net.embedding, final["embedding"])
    assert not np.array_equal(net.embedding, text.loss.net.embedding)
    answers = np.asarray(text.validation.answers)
    assert text.unigram == pytest.approx(-np.log(text.vocabulary.shares[answers]).mean())


def test_fixed_tables_are_no_weights(preset, text):
    fixed = presets.preset_of("small", TOY | {"text_tables": "fixed"})
    theta = text_training.start(fixed, text, 1)
    assert set(theta) == {"layers"}
    assert text.loss.network(theta) is text.loss.net
    learned = text_training.start(preset, text, 1)
    np.testing.assert_array_equal(theta["layers"][1].W_1, learned["layers"][1].W_1)


def test_layers_are_read_from_the_descent(preset, text, descent):
    lower, upper = text_training.by_layer(preset, text, descent)
    moments = text_training.moments(preset)
    np.testing.assert_array_equal(upper.run.times, moments)
    rows = np.searchsorted(np.asarray(descent.steps), moments)
    saved = descent.states["layers"]
    np.testing.assert_array_equal(lower.run.states.W_V, saved[0].W_V[rows])
    np.testing.assert_array_equal(upper.following.W_1, saved[1].W_1[rows + 1])


def layer(**events):
    """Rows of one layer of seed 1, with events by matrix: (doubled, halved, condensed, left)."""
    names = ("norm doubled at step", "rank halved at step", "condensed at step", "left at step")
    return [
        {"seed": 1, "layer": 1, "matrix": name} | dict(zip(names, times, strict=True))
        for name, times in events.items()
    ]


def test_claims_of_the_order():
    seed = wikitext.Seed(1, [None], np.zeros(1), np.zeros(1), [])
    good = layer(
        W_V=(1, 4, 6, None), W_1=(2, 5, 7, 30), W_2=(2, 5, 7, None),
        W_Q=(8, 9, 12, None), W_K=(9, 9, 11, None),
    )  # fmt: skip
    claims = wikitext.order_claims([seed], good)
    assert all(claim.held for claim in claims)
    bad = layer(
        W_V=(3, None, None, None), W_1=(2, 5, 7, 10), W_2=(2, 5, 9, None),
        W_Q=(2, 1, 12, None), W_K=(9, 9, None, None),
    )  # fmt: skip
    claims = wikitext.order_claims([seed], bad)
    assert not any(claim.held for claim in claims)
    assert "0 of 1" in claims[0].text
    assert claims[0].measured == [[3, 2]]


def test_distances_are_relative():
    assert text_first_stage.apart([jnp.ones(4)], [jnp.full(4, 2.0)]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (None, [], "text must name a UTF-8 text file for the figure 'wikitext', words between"),
        ("", [], "path must be a readable UTF-8 text file"),
        (" \n ", [], "path must be a text that is not empty"),
        (
            "a b c d " * 500,
            ["task_length=3000"],
            "length must leave a token after the window in a text",
        ),
        ("a b c d " * 5, [], "length must leave a token after the window in parts of 18 and 2"),
        ("a b c d " * 200, ["text_vocabulary=1"], "vocabulary must be an integer >= 2; got 1"),
        ("<unk> " * 200, [], "vocabulary must keep a word beside <unk>"),
        ("a b", ["text_tables=frozen"], "text_tables must be one of learned, fixed"),
        ("a b", ["text_share=1.5"], "text_share must lie in"),
    ],
)
def test_bad_input_is_one_line(words, options, message, tmp_path, capsys):
    path = tmp_path / "book.txt"
    if words:
        path.write_text(words)
    file = [] if words is None else ["--text", str(path)]
    assert main(["paper", "wikitext", *file, "--out", str(tmp_path / "p"), *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_a_loss_falls_with_training(preset, text, descent):
    losses = text_training.mean_loss
    start = jax.tree.map(lambda W: W[0], descent.states)
    assert losses(text, descent.final) < losses(text, start)
