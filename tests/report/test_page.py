"""The report page: valid, self-contained, with all that it was given, and words for what lacks."""

import re
from html.parser import HTMLParser

import pytest

from flowsim.experiments.run_page import TERMS, comparison, facts
from flowsim.report import new_figure, report_page, save_figure

VOID = {"meta", "img"}
#: Attributes and CSS that fetch something.
FETCHING = {"src", "href", "srcset", "data", "poster", "action", "background"}


class Page(HTMLParser):
    """Checks that tags close in order; collects text, tags and what would be fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.fetched, self.words = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.fetched += [value for name, value in attributes if name in FETCHING]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    paths = {}
    for name, width in (("small", 3.4), ("large", 7.0)):
        paths[name] = save_figure(new_figure(width, 1.0), folder, name, ("png",))[0]
    text = report_page(
        "Run <1> & more",
        figures={name: (path, f"caption of {name} <b>") for name, path in paths.items()},
        comparison=[("T", 1.0, None, "0.01")],
        facts={"a < b": 1.5},
        terms={"T": "a time & a word"},
        configuration='task = "<digits>"',
        warning="careful & slow",
    )
    return text, Page(text)


def test_tags_close_and_text_is_escaped(page):
    text, read = page
    assert text.startswith("<!DOCTYPE html>")
    assert read.open == []
    for given in (
        "Run <1> & more",
        "careful & slow",
        "a < b",
        'task = "<digits>"',
        "a time & a word",
    ):
        assert given in read.words
    assert not read.named("b")


def test_nothing_is_fetched_or_run(page):
    text, read = page
    assert len(read.fetched) == 2
    assert all(value.startswith("data:image/png;base64,") for value in read.fetched)
    assert not {tag for tag, _ in read.tags} & {"script", "link", "iframe", "object", "base"}
    assert not re.search(r"@import|url\(|https?:|\son[a-z]+=", text)


def test_figures_have_names_captions_and_room(page):
    _, read = page
    assert read.named("figure") == [{"id": "small"}, {"id": "large", "class": "large"}]
    assert [image["alt"] for image in read.named("img")] == [
        "caption of small <b>", "caption of large <b>",
    ]  # fmt: skip
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.named(
        "meta"
    )


SUMMARY = {
    "blow_up": {
        "predicted": 100.0, "simulated": 101.0, "relative_error": 0.01, "lower": 99.0,
        "upper": 100.5, "verdict": "proved",
    },
    "onset": {"predicted": 200.0, "simulated": 210.0},
    "plateau": {"exists": True, "loss": 0.9},
    "final": {"loss": 0.7, "effective_ranks": {"W_Q": 1.3}},
    "trusted_until": None,
    "comparison": {"at_blow_up": {"W_2": 1e-3}, "departure": None, "linear_departure": 220.0},
    "assumptions": {"since": {"1": None, "2": 150.0, "2*": None}},
    "outcome": "reached_end",
    "conserved_drift": 1e-12,
    "energy_drift": 1e-11,
}  # fmt: skip


def test_what_lacks_a_number_is_said_in_words():
    found = facts(SUMMARY)
    assert found["prediction trusted until"] == "its end"
    assert found["prediction departs"] == "not within the run"
    assert found["linear key-query growth departs"] == 220.0
    assert found["Assumption 1 holds from"] == "does not last to the end"
    assert found["Assumption 2 holds from"] == 150.0
    assert found["Assumption 2* holds from"] == "not within the run"
    assert None not in found.values()
    assert facts(SUMMARY | {"plateau": {"exists": False, "loss": None}})["plateau"] == "none"
    assert facts(SUMMARY | {"trusted_until": 7.0})["prediction trusted until"] == 7.0
    assert comparison(SUMMARY) == [
        ("blow-up time T", 100.0, 101.0, "0.01"), ("onset of stage 2", 200.0, 210.0, "0.05"),
    ]  # fmt: skip
    assert all(row[0] in TERMS for row in comparison(SUMMARY))
