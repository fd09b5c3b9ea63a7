"""Time axis, event labels, legends, style and files."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowsim.report import csv_table, figure_style, markdown_table, save_figure, save_table
from flowsim.report.canvas import legend_columns, new_figure
from flowsim.report.event_marks import arrange
from flowsim.report.time_axis import TimeAxis


class Record(SimpleNamespace):
    """What a time axis needs of a trajectory."""

    clock = "training"

    def __len__(self):
        return len(self.times)


def axis_to(end, unit=50.0):
    return TimeAxis.of(Record(times=np.array([0.0, end * unit])), unit)


def test_axis_is_even_without_a_blow_up_or_far_beyond_it():
    assert axis_to(5.0).change is None
    assert axis_to(0.7).change is None
    assert TimeAxis.of(Record(times=np.array([0.0, 3.0]))).label == "time $t$ (training time)"


@pytest.mark.parametrize("end", [1.9, 1.2, 1.01, 1.0001])
def test_axis_stretches_what_lies_around_the_blow_up(end):
    axis = axis_to(end)
    assert axis.share(0.0) == 0
    assert axis.share(end) == pytest.approx(1)
    assert axis.share(axis.change) == pytest.approx(0.3)
    assert 0.45 < axis.share(1.0) < 0.55
    forward, back = axis._functions()
    positions = np.linspace(0, end, 50)
    np.testing.assert_allclose(back(forward(positions)), positions, atol=1e-12)
    assert np.all(np.diff(forward(positions)) > 0)


@pytest.mark.parametrize("end", [1.9, 1.2, 1.01, 1.0001])
def test_ticks_are_few_different_and_apart(end):
    axis, figure = axis_to(end), new_figure()
    with figure_style():
        ax = figure.add_subplot()
        axis.apply(ax)
        figure.draw_without_rendering()
    labels = [label for label in ax.get_xticklabels() if label.get_text()]
    written = [label.get_text() for label in labels]
    assert {"0", "0.5", "1"} < set(written)
    assert len(set(written)) == len(written) <= 7
    # what is written is where it stands
    np.testing.assert_allclose([float(text) for text in written], ax.get_xticks(), atol=1e-9)
    boxes = [label.get_window_extent() for label in labels]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_large_blow_up_times_have_a_power_of_ten():
    assert r"$4.153\times 10^{4}$" in axis_to(1.5, 41525.4).label


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.02, 0.3)), min_size=1, max_size=5))
def test_event_labels_never_overlap_in_a_row(labels):
    labels = sorted(labels)
    places = arrange([centre for centre, _ in labels], [width for _, width in labels])
    rows = {}
    for (centre, width), (alignment, row) in zip(labels, places, strict=True):
        left = centre - width * {"center": 0.5, "right": 1.0, "left": 0.0}[alignment]
        rows.setdefault(row, []).append((left, left + width))
    for spans in rows.values():
        ordered = sorted(spans)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ordered))
    assert set(rows) == set(range(len(rows)))


def test_two_close_events_stand_on_either_side_of_their_lines():
    assert arrange([0.50, 0.51], [0.1, 0.1]) == [("right", 0), ("left", 0)]
    assert arrange([0.2, 0.8], [0.1, 0.1]) == [("center", 0), ("center", 0)]


def test_no_line_crosses_the_label_of_another_among_close_events():
    labels = [(0.104, 0.17), (0.127, 0.11), (0.164, 0.15)]
    mirrored = [(1 - centre, width) for centre, width in labels[::-1]]
    for marks, sides in (
        (labels, ["center", "left", "left"]),
        (mirrored, ["right"] * 2 + ["center"]),
    ):
        places = arrange([centre for centre, _ in marks], [width for _, width in marks])
        assert [side for side, _ in places] == sides
        assert sorted(row for _, row in places) == [0, 1, 2]
    assert places[0][1] == 0  # the line nearest to the middle has the lowest label


def test_legends_fit_their_letters():
    labels = ["$W_Q$", "$W^{[1]}$", "a long label of a curve"]
    assert legend_columns(labels, 60) == 3
    assert legend_columns(labels, 40) == 2
    assert legend_columns(labels, 5) == 1
    assert legend_columns(["$W_Q$"] * 6, 45) == 3  # not five and one


def test_style_ends_with_its_block_even_after_an_error():
    import matplotlib

    before = matplotlib.rcParams.copy()
    with figure_style():
        assert matplotlib.rcParams["font.size"] == 7
    assert matplotlib.rcParams.copy() == before
    with pytest.raises(KeyError, match="stop"), figure_style():
        raise KeyError("stop")
    assert matplotlib.rcParams.copy() == before


def test_files_are_png_and_pdf_with_the_same_bytes_each_time(tmp_path):
    figure = new_figure()
    ax = figure.add_subplot()
    ax.plot([0, 1], [1, 0])
    first = save_figure(ax, tmp_path / "new" / "figures", "line")
    assert [path.name for path in first] == ["line.png", "line.pdf"]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert first[1].read_bytes().startswith(b"%PDF")
    second = save_figure(np.array([ax]), tmp_path, "line")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_a_figure_that_cannot_be_drawn_leaves_no_file(tmp_path):
    figure = new_figure()
    figure.text(0.5, 0.5, r"$\nonsense$")
    with pytest.raises(ValueError, match="nonsense"):
        save_figure(figure, tmp_path, "broken")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="folder must be a place that can be written"):
        save_figure(new_figure(), tmp_path / "file", "line")


ROWS = [
    {"scale": 1e-2, "error": 0.0123456, "held": True, "note": "a|b\nc"},
    {"scale": 1e-4, "error": float("nan"), "held": np.False_, "extra": np.float64(2.0)},
]


def test_markdown_rounds_escapes_and_marks_what_is_missing():
    assert markdown_table(ROWS).splitlines() == [
        "| scale | error | held | note | extra |",
        "|---:|---:|:---|:---|---:|",
        r"| 0.01 | 0.01235 | yes | a\|b c | – |",
        "| 0.0001 | – | no | – | 2 |",
    ]
    assert markdown_table([]) == ""


def test_csv_keeps_all_digits(tmp_path):
    import csv

    paths = save_table(ROWS, tmp_path / "tables", "errors")
    assert [path.name for path in paths] == ["errors.md", "errors.csv"]
    with open(paths[1], newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["error"]) == 0.0123456
    assert rows[0]["note"] == "a|b\nc"
    assert rows[1]["error"] == ""
    assert csv_table(ROWS) == paths[1].read_text()
