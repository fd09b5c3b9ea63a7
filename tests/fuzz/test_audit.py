"""What a command touches, by Python's own audit events: no network, no pickle, its folder alone."""

import os
import re
import sys
from pathlib import Path

import pytest

from flowsim.cli import main

PACKAGE = Path(__file__).parents[2] / "flowsim"
WRITING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod"}
FORBIDDEN = ("socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.", "pickle.", "marshal")


class Auditor:
    """Collects, while it is on, where files were changed and what is forbidden altogether."""

    def __init__(self):
        self.on, self.places, self.forbidden = False, [], []
        sys.addaudithook(self)

    def __call__(self, event, arguments):
        if not self.on:
            return
        if event.startswith(FORBIDDEN):
            self.forbidden.append((event, arguments))
        elif event in WRITING or (event == "open" and writes(*arguments[1:])):
            self.places.append(arguments[0])


def writes(mode, flags):
    """Whether a file is opened to be changed; `os.open` has no mode."""
    return bool(set(mode or "") & set("wax+")) or bool(flags & (os.O_WRONLY | os.O_RDWR))


@pytest.fixture(scope="module")
def auditor():
    return Auditor()


COMMAND = ["census", "--width", "2", "--count", "4", "source=matrices", "shard=2", "--out"]


def test_a_command_writes_in_its_folder_alone_and_asks_no_network(auditor, tmp_path, capsys):
    assert main([*COMMAND, str(tmp_path / "before")]) == 0  # what is loaded once, is loaded
    auditor.on = True
    try:
        assert main([*COMMAND, str(tmp_path / "out")]) == 0
    finally:
        auditor.on = False
    assert auditor.forbidden == []
    assert len(auditor.places) > 10
    outside = [p for p in auditor.places if not Path(str(p)).is_relative_to(tmp_path / "out")]
    assert outside == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_no_source_unpickles_evaluates_or_connects(path):
    source = path.read_text(encoding="utf-8")
    imports = r"^\s*(import|from) (pickle|marshal|shelve|socket|urllib|http|requests|ctypes)\b"
    assert not re.search(imports, source, re.MULTILINE)
    assert not re.search(r"allow_pickle=True|\beval\(|\bexec\(|os\.system\(|shell=True", source)
