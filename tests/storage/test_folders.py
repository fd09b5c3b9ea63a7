"""Result folders: made, finished, kept to one run at a time."""

import pytest
from storage_helpers import ONE_LINE, names, opened

from flowsim import storage


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    folder = opened(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert names(folder) == []
    assert not storage.is_finished(folder)


def test_a_finished_folder_is_refused_unless_overwritten(tmp_path):
    storage.write_json(tmp_path / "summary.json", {})
    storage.write_text(tmp_path / "trajectory.nc", "")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"^out must be a folder without a summary\.json"):
        opened(tmp_path)
    assert names(tmp_path) == ["notes.txt", "summary.json", "trajectory.nc"]
    opened(tmp_path, overwrite=True, names=["trajectory.nc", "absent"])
    assert names(tmp_path) == ["notes.txt"]


def test_only_our_own_temporaries_are_removed(tmp_path):
    (tmp_path / "figures").mkdir()
    theirs = [".flowsim-x.partial", "a.partial", ".flowsim-0123456789abcdef.partial.d"]
    ours = [".flowsim-0123456789abcdef.partial", "figures/.flowsim-00000000000000ff.partial.png"]
    for name in theirs[:2] + ours:
        (tmp_path / name).write_text("")
    (tmp_path / theirs[2]).mkdir()
    opened(tmp_path)
    assert names(tmp_path) == sorted([*theirs, "figures"])
    assert names(tmp_path / "figures") == []


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/flowsim", "nul\0byte", "a" * 300])
def test_folders_that_cannot_be_used_are_named(tmp_path, place):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match=r"^out must be ") as caught:
        opened(tmp_path / place)
    assert ONE_LINE.fullmatch(str(caught.value))
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_in_place_of_the_summary_is_refused(tmp_path):
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(ValueError, match=r"^out must be"):
        opened(tmp_path, overwrite=True)
    with pytest.raises(ValueError, match=r"^out must be a path, not empty"):
        opened("")


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path):
    out = tmp_path / "out"
    with storage.open_folder(out):
        (out / ".flowsim-0123456789abcdef.partial").write_text("being written")
        for overwrite in (False, True):
            with (
                pytest.raises(ValueError, match="out must be a folder in which no other run is"),
                storage.open_folder(out, overwrite),
            ):
                pass
        assert names(out) == [".flowsim-0123456789abcdef.partial"]
    with storage.open_folder(out):
        assert names(out) == []


def test_where_no_locks_are_known_nothing_is_kept_out(tmp_path, monkeypatch):
    def unknown(*args):
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.flock", unknown)
    with storage.claimed(tmp_path), storage.claimed(tmp_path):
        pass
