"""Figures: what they draw, that they label it, and that they leave no trace elsewhere."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.axes import Axes

from flowsim.observables import reordered_similarity
from flowsim.report import figures
from flowsim.report.canvas import UNTRUSTED, new_figure
from flowsim.report.saving import figure_of

T = 100.0
DIRECTION = jnp.array([1.0, 0.0, 0.0, 0.0])


def panels(network, task):
    return {
        "loss": lambda run, **more: figures.loss(run, network, task, **more),
        "norms": figures.norms,
        "change_rates": figures.change_rates,
        "effective_ranks": figures.effective_ranks,
        "condensation": lambda run, **more: figures.condensation(run, DIRECTION, **more),
        "condition": lambda run, **more: figures.condensation_condition(run, DIRECTION, **more),
        "stability": lambda run, **more: figures.singular_vector_stability(run, "W_V", **more),
    }


NAMES = list(panels(None, None))


def without_time(run, cut):
    return eqx.tree_at(lambda r: r.count, run, cut, is_leaf=lambda x: x is None)


def texts(ax, gid):
    return [text for text in ax.texts if text.get_gid() == gid]


def assert_inside(figure):
    """All that is drawn lies on the page (up to a point of rounding)."""
    figure.draw_without_rendering()
    box, page = figure.get_tightbbox(), figure.bbox_inches
    assert box.x0 >= page.x0 - 1 / 72
    assert box.y0 >= page.y0 - 1 / 72
    assert box.x1 <= page.x1 + 1 / 72
    assert box.y1 <= page.y1 + 1 / 72


def assert_apart(labels):
    boxes = [label.get_window_extent() for label in labels]
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            assert not one.overlaps(other)


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_is_labelled_whole_and_on_the_page(name, run, network, task):
    ax = panels(network, task)[name](run, blow_up_time=T)
    assert isinstance(ax, Axes)
    assert ax.get_xlabel() == "time $t/T^*$  ($T^*$ = 100 training time)"
    assert ax.get_ylabel()
    assert ax.get_title(loc="left")
    assert ax.get_xlim() == (0.0, 1.2)
    assert_inside(ax.get_figure())
    labels = texts(ax, "event label")
    assert {label.get_text() for label in labels} == {"$T^*$", "escape", "onset", "plateau"}
    assert_apart(labels + texts(ax, "compressed"))
    assert not texts(ax, UNTRUSTED)


@pytest.mark.parametrize(("unit", "marks"), [(100.0, ["compressed"]), (200.0, []), (None, [])])
def test_a_change_of_scale_is_marked_on_the_axis_and_above_it(run, unit, marks):
    ax = figures.norms(run, blow_up_time=unit)
    assert [text.get_text() for text in texts(ax, "compressed")] == marks
    assert [text.get_text() for text in texts(ax, "break")] == ["//"] * len(marks)


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_draws_where_it_is_told_and_marks_untrusted_runs(name, run, network, task):
    ax = new_figure().add_subplot()
    untrusted = eqx.tree_at(lambda r: r.trusted, run, False)
    assert panels(network, task)[name](untrusted, ax=ax) is ax
    assert ax.get_xlabel() == "time $t$ (training time)"
    marks = texts(ax, UNTRUSTED)
    assert [text.get_text() for text in marks] == ["untrusted run"]
    curves = [line for line in ax.lines if line.get_gid() is None]
    assert all(marks[0].zorder < line.zorder for line in curves)


def test_norms_are_those_of_the_states_in_units_of_the_blow_up_time(run):
    ax = figures.norms(run, blow_up_time=T)
    assert ax.get_yscale() == "log"
    lines = {line.get_label(): line for line in ax.lines}
    for name, label in [("W_Q", "$W_Q$"), ("W_2", "$W^{[2]}$")]:
        W = np.asarray(getattr(run.states, name)).reshape(run.times.size, -1)
        np.testing.assert_allclose(lines[label].get_xdata(), run.times / T, rtol=1e-14)
        np.testing.assert_allclose(lines[label].get_ydata(), np.linalg.norm(W, axis=1), rtol=1e-13)


def test_loss_is_that_of_the_network(run, network, task):
    line = figures.loss(run, network, task).lines[0]
    final = network.loss(run.final, task)
    np.testing.assert_allclose(line.get_ydata()[-1], final, rtol=1e-13)


def test_given_values_are_drawn_in_place_of_computed_ones(run):
    values = {"W_K": np.full(run.times.size, 2.0)}
    ax = figures.effective_ranks(run, values=values)
    assert [line.get_label() for line in ax.lines if line.get_gid() is None] == ["$W_K$"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), 2.0)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_predictions_are_dashed_black(name, run, network, task):
    predicted = eqx.tree_at(lambda r: r.times, run, run.times * 1.01)
    ax = panels(network, task)[name](run, predicted=predicted)
    dashed = [line for line in ax.lines if line.is_dashed() and line.get_gid() is None]
    solid = [line for line in ax.lines if not line.is_dashed() and line.get_gid() is None]
    assert len(dashed) == len(solid) > 0
    assert all(line.get_color() == "#000000" for line in dashed)
    assert [line.get_label() for line in dashed].count("predicted") == 1
    np.testing.assert_allclose(dashed[0].get_xdata(), predicted.times[:-1])
    shown = np.isfinite(dashed[0].get_ydata())  # an exact zero has no place on a logarithmic axis
    same = np.asarray(solid[0].get_ydata())[:-1]
    np.testing.assert_array_equal(same[~shown], 0)
    np.testing.assert_allclose(dashed[0].get_ydata()[shown], same[shown])


def test_a_prediction_beyond_the_run_does_not_stretch_the_panel(run):
    ahead = eqx.tree_at(lambda r: r.times, run, run.times * 10)
    alone, both = figures.norms(run), figures.norms(run, predicted=ahead)
    assert both.get_ylim() == alone.get_ylim()


def test_rate_crossing_is_located_between_saved_times(run):
    """e^t overtakes e^{2−t} at t = 1 with the rate e: log-linear, so exact."""
    times = np.array([0.0, 0.3, 1.9, 2.0])
    ones = {"W": jnp.ones((4, 1))}
    made = eqx.tree_at(lambda r: (r.times, r.states, r.rates), run, (times, ones, None))
    rates = {"W_Q": np.exp(times), "W_K": np.exp(times - 1)}
    rates |= dict.fromkeys(("W_V", "W_1", "W_2"), np.exp(2 - times))
    assert figures.rate_crossing(made, rates) == (pytest.approx(1), pytest.approx(np.e))
    late = rates | {"W_2": np.exp(9 - times)}
    assert figures.rate_crossing(made, late) is None
    assert figures.rate_crossing(made, {"W_Q": rates["W_Q"]}) is None


def test_rates_without_saved_ones_are_taken_between_states(run):
    bare = eqx.tree_at(lambda r: r.rates, run, None)
    y = figures.change_rates(bare).lines[0].get_ydata()
    W = np.asarray(run.states.W_Q)
    change = np.linalg.norm(np.diff(W, axis=0), axis=(1, 2)) / np.diff(run.times)
    np.testing.assert_allclose(y[:-1], change / np.linalg.norm(W[:-1], axis=(1, 2)), rtol=1e-12)
    ax = figures.change_rates(run)
    assert [line.get_gid() for line in ax.lines].count("crossover") == 1
    assert ax.get_legend().get_texts()[-1].get_text() == "$W_Q, W_K$ overtake"


def test_similarity_matrices_at_the_four_moments(run):
    axes = figures.similarity_matrices(run, "W_Q", blow_up_time=T)
    assert axes.shape == (4,)
    headings = ["start", "onset (0.980 $T^*$)", "blow-up ($T^*$)", "end (1.200 $T^*$)"]
    assert [ax.get_title() for ax in axes] == headings
    assert_inside(figure_of(axes))
    for ax, time in zip(axes, (0.0, 98.0, T, 120.0), strict=True):
        exact = reordered_similarity(run.evaluate(time).W_Q)
        np.testing.assert_allclose(ax.images[0].get_array(), exact, atol=1e-12)
        assert ax.images[0].get_clim() == (-1, 1)


def test_a_moment_that_did_not_happen_says_so(run):
    short = without_time(run, 5)
    bare = eqx.tree_at(lambda r: r.event_times, short, {})
    axes = figures.similarity_matrices(bare, "W_K")
    assert [len(ax.images) for ax in axes] == [1, 0, 0, 1]
    assert [text.get_text() for ax in axes for text in ax.texts] == ["not reached"] * 2


def test_gallery_has_a_row_for_each_matrix(run):
    axes = figures.similarity_gallery(run, ("W_V", "W_Q"), blow_up_time=T)
    assert axes.shape == (2, 4)
    assert [row[0].get_ylabel() for row in axes] == ["rows of $W_V$", "rows of $W_Q$"]
    assert_inside(figure_of(axes))


def test_overview_is_one_figure_on_one_page(run, network, task):
    untrusted = eqx.tree_at(lambda r: r.trusted, run, False)
    axes = figures.two_stage_overview(untrusted, network, task, blow_up_time=T, predicted=run)
    assert axes.shape == (9,)
    assert len({figure_of(ax) for ax in axes}) == 1
    figure = figure_of(axes)
    assert_inside(figure)
    titles = [ax.get_title() for ax in axes[5:]]
    assert titles == ["start", "onset", "blow-up", "end"]
    for ax in axes[:5]:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert_apart(texts(ax, "event label"))
    assert all(texts(ax, UNTRUSTED) for ax in axes)


def test_states_of_another_network_are_drawn_under_their_own_names(run):
    other = eqx.tree_at(
        lambda r: (r.states, r.rates), run, ({"embed": run.states.W_1}, {"embed": run.rates.W_1})
    )
    for draw in (figures.norms, figures.effective_ranks, figures.change_rates):
        lines = [line for line in draw(other).lines if line.get_gid() is None]
        assert [line.get_label() for line in lines] == ["embed"]


def test_descents_are_labelled_in_steps(run):
    leaves, structure = jax.tree.flatten(run)
    steps = jax.tree.unflatten(structure, leaves)
    object.__setattr__(steps, "clock", "steps")
    assert figures.norms(steps).get_xlabel() == "optimiser steps"
    label = figures.norms(steps, blow_up_time=T).get_xlabel()
    assert label == "time $t/T^*$  ($T^*$ = 100 steps)"
    assert figures.change_rates(steps).get_ylabel().endswith("per step")


def test_a_blow_up_time_must_be_positive(run):
    with pytest.raises(ValueError, match="blow_up_time must be positive and finite"):
        figures.norms(run, blow_up_time=-1.0)


def test_every_figure_says_what_to_look_for():
    from flowsim.report.figures import ensembles

    found = {**vars(figures), **vars(ensembles)}
    drawing = {
        name: function
        for name, function in found.items()
        if inspect.isfunction(function)
        and function.__module__.startswith("flowsim.report.figures.")
        and name != "rate_crossing"
    }
    assert len(drawing) >= 20
    assert all("Look for" in function.__doc__ for function in drawing.values())


def test_a_notebook_shows_a_figure_by_itself_without_pyplot(run):
    figure = figures.norms(run).get_figure()
    assert figure._repr_png_().startswith(b"\x89PNG")
