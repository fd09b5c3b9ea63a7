"""What the tests of storage share."""

import re

from flowsim.storage import open_folder

ONE_LINE = re.compile(r"[^\n\r]{10,400}")


def names(folder):
    """Names in a folder, sorted."""
    return sorted(entry.name for entry in folder.iterdir())


def opened(*arguments, **more):
    """The folder as a run finds it."""
    with open_folder(*arguments, **more) as folder:
        return folder
