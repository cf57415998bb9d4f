"""The one place where errors become messages and exit statuses."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from dwcl.cli.console import complain, messages
from dwcl.cli.interrupts import StoppedError
from dwcl.errors import DwclError

P = ParamSpec("P")
R = TypeVar("R")

BAD_INPUT = 2
INTERRUPTED = 130
READER_GONE = 141


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command: a user's error ends it with one message, an interrupt with a remark."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        _show_warnings_of_the_package()
        try:
            result = command(*args, **kwargs)
            sys.stdout.flush()  # while a reader that has gone can still be told from trouble
        except DwclError as failure:
            complain(str(failure))
            raise typer.Exit(BAD_INPUT) from None
        except StoppedError as stopped:
            complain(str(stopped))
            raise typer.Exit(stopped.status) from None
        except KeyboardInterrupt:
            complain("Interrupted; nothing half-written is left.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output has gone. What Python still holds must not be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(READER_GONE) from None
        except OSError as failure:
            place = f"{failure.filename}: " if failure.filename else ""
            complain(f"{place}{failure.strerror or failure}. Check the path and its permissions.")
            raise typer.Exit(BAD_INPUT) from None
        return result

    return wrapper


class _ToConsole(logging.Handler):
    """Shows what the package logs as a warning, without the trimmings of a log file."""

    def emit(self, record: logging.LogRecord) -> None:
        messages().print(record.getMessage(), markup=False, soft_wrap=True)


def _show_warnings_of_the_package() -> None:
    logger = logging.getLogger("dwcl")
    if not any(isinstance(handler, _ToConsole) for handler in logger.handlers):
        logger.addHandler(_ToConsole(logging.WARNING))
