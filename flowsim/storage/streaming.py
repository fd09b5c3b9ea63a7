"""Text files of any size, a piece at a time."""

import codecs
import os
from collections.abc import Iterator

from flowsim.storage.reading import UnreadableError, reason, refusal, regular

PIECE = 1 << 20


def text_pieces(path: str | os.PathLike, *, name: str = "path", size: int = PIECE) -> Iterator[str]:
    """The text of a UTF-8 file in pieces of at most `size` bytes; a byte order mark is dropped.

    Raises:
        UnreadableError: the file is missing, not a regular file, or not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    done = 0
    try:
        with open(regular(name, path, "text"), "rb") as file:
            while block := file.read(size):
                yield decoder.decode(block)
                done = file.tell() - len(decoder.getstate()[0])
            yield decoder.decode(b"", final=True)
    except UnreadableError:
        raise
    except UnicodeDecodeError as error:
        why = f"byte {error.object[error.start]:#04x} at place {done + error.start}: {error.reason}"
        raise refusal(name, path, "UTF-8 text", why) from error
    except OSError as error:
        raise refusal(name, path, "UTF-8 text", reason(error)) from error
