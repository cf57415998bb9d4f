"""Where words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import math
from typing import Any

from rich.console import Console
from rich.markup import escape

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
    print(json.dumps(_finite(value), ensure_ascii=False))  # noqa: T201 - this is the output


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the guard of the commands, which ends them all in one way."""
        raise


def _console(*, stderr: bool) -> Console:
    console = _Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = _Console(stderr=stderr, highlight=False, width=_PIPE_WIDTH, color_system=None)
    return console


def _finite(value: Any) -> Any:
    if hasattr(value, "item"):  # a scalar of NumPy
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
