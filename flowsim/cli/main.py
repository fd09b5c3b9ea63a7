"""Entry point: reads the command, turns double precision on, maps endings to exit codes."""

import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence

from flowsim.cli import blowup, census, compare, info, paper, run, seeds
from flowsim.cli.parser import BadUsageError, build_parser, parse

COMMANDS = (run, blowup, compare, census, seeds, paper, info)
DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 (done), 1 (the run failed) or 2 (bad input)."""
    try:
        options = parse(build_parser(COMMANDS), arguments)
        configure_jax(options.cache)
        return options.execute(options)
    except (ValueError, TypeError, ImportError, OverflowError, BadUsageError) as error:
        print(f"flowsim: {one_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError as error:
        print(f"flowsim: not enough memory: {one_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):  # how JAX says it
            raise
        print(f"flowsim: not enough memory: {one_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("flowsim: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def console() -> int:
    """`main` as the program `flowsim`."""
    signal.signal(signal.SIGINT, interrupted)
    warnings.formatwarning = warning_line
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may be no text
        sys.stdout.reconfigure(errors="backslashreplace")
    return main()


def warning_line(message: Warning | str, *_: object, **__: object) -> str:
    """A warning as a person wants it: what it says, not which line of the program said it."""
    return f"flowsim: warning: {' '.join(str(message).split())}\n"


def interrupted(*_: object) -> None:
    """End at once: an exception could be lost in a callback, and threads that still compile may
    not outlive the interpreter. Files are whole at every moment."""
    os.write(sys.stderr.fileno(), b"flowsim: interrupted\n")
    os._exit(INTERRUPTED)


def configure_jax(cache: str | None) -> None:
    """Double precision, and the compilation cache if one was asked for."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if cache:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def one_line(error: Exception) -> str:
    """What an exception says, on one line that every terminal can show."""
    text = str(error).encode("utf-8", errors="backslashreplace").decode()
    return " ".join(text.split()) or type(error).__name__
