"""Where words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape

from dwcl.files import finite

_PIPE_WIDTH = 100


def output() -> Console:
    """Return the console for results."""
    return _console(stderr=False)


def messages() -> Console:
    """Return the console for remarks, progress and complaints."""
    return _console(stderr=True)


def complain(message: str) -> None:
    """Show the one message of a command that failed."""
    messages().print(f"[bold red]dwcl:[/] {escape(message)}", soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """Print one JSON object on standard output; what is not a number becomes null."""
    # JSON has its own way to write what the terminal has no letters for.
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(finite(value), ensure_ascii=ascii_only))  # noqa: T201 - this is the output


def put_up_with_few_letters() -> None:
    """Let the output lose letters that the terminal does not have, rather than end in an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the guard of the commands, which ends them all in one way."""
        raise


class _Remarks(_Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Say something, unless it is written to a file on a full disk: no run ends by that."""
        try:
            super().print(*objects, **options)
        except BrokenPipeError:
            raise
        except OSError:
            return


def _console(*, stderr: bool) -> Console:
    kind = _Remarks if stderr else _Console
    console = kind(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = kind(stderr=stderr, highlight=False, width=_PIPE_WIDTH, color_system=None)
    return console
