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
            return command(*args, **kwargs)
        except DwclError as failure:
            complain(str(failure))
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            complain("Interrupted; nothing was written.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output has gone. What Python still holds must not be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(READER_GONE) from None

    return wrapper


class _ToConsole(logging.Handler):
    """Shows what the package logs as a warning, without the trimmings of a log file."""

    def emit(self, record: logging.LogRecord) -> None:
        messages().print(record.getMessage(), markup=False, soft_wrap=True)


def _show_warnings_of_the_package() -> None:
    logger = logging.getLogger("dwcl")
    if not any(isinstance(handler, _ToConsole) for handler in logger.handlers):
        logger.addHandler(_ToConsole(logging.WARNING))
