"""The command line: what every command shares at its start and end; the table of commands is `tkc.commands`."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from tkc import clock as clock  # first of all: it looks at the time


def main(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code."""
    from click.exceptions import Abort, ClickException

    from tkc.commands.group import group
    from tkc.diagnostics import Bug, TkcError

    try:
        code = group.main(list(arguments), prog_name="tkc", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except ClickException as error:
        error.show()
        return error.exit_code
    except Abort:  # click's word for Ctrl-C
        raise KeyboardInterrupt from None
    except (TkcError, Bug) as error:
        from tkc.commands.report import print_error

        return print_error(error, sys.stderr)


def guarded(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """What a command returns, or what an exception that it let through means; nothing makes a traceback."""
    try:
        code = command(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        return 141
    except OSError as error:
        if error.errno not in _DISK:
            return _own_fault(error)
        sys.stderr.write(
            f"error: output cannot be written: {os.strerror(error.errno).lower()} [TK118]\n"
        )
        return 1
    except Exception as error:
        return _own_fault(error)


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a disk says when it takes no more: the machine's fault, wherever it is met."""


def _own_fault(error: Exception) -> int:
    """An exception that nobody expected: one message, exit 3; the traceback only where it is asked for."""
    if os.environ.get("TKC_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    said = " ".join(str(error).split()) or "no message"
    sys.stderr.write(
        f"internal error in the command line: {type(error).__name__}: {said} [TK901]\n"
        "TKC_TRACEBACK=1 shows where\n"
    )
    return 3


def run_script(command: Callable[[Sequence[str]], int]) -> NoReturn:
    """Runs a command as a process that does nothing else: no garbage collection, SIGPIPE ends it quietly."""
    import signal

    from tkc.quick_imports import find_quickly

    gc.disable()
    find_quickly()
    from tkc.late_modules import put_off

    put_off()
    from tkc.generated_code import keep

    kept = keep()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = guarded(command, sys.argv[1:])
    if kept is not None:
        kept.write()
    if "tkc.backend.cuda" in sys.modules:
        sys.exit(code)  # the CUDA driver and tools that watch it have work to do at exit
    sys.stderr.flush()
    os._exit(code)  # taking the modules down in order costs as much as a pass, and changes nothing


def script() -> NoReturn:
    """Entry point of the `tkc` script and of `python -m tkc`."""
    run_script(main)


if __name__ == "__main__":
    script()
