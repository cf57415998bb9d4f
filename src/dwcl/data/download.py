"""Downloads: one file of known hash from the first mirror that gives it, or a reason for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pooch
from requests import exceptions as web  # pooch's downloader raises the errors of requests

from dwcl.data.catalogue import Entry
from dwcl.data.home import make_home
from dwcl.errors import FileError
from dwcl.files import atomic, sha256_of

TIMEOUT = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next piece of a file."""


class ProgressBar(Protocol):
    """What a download reports to, in the form that pooch drives."""

    total: int

    def update(self, n: int) -> Any:
        """Count `n` further bytes."""
        ...

    def reset(self) -> Any:
        """Begin again at nothing."""
        ...

    def close(self) -> Any:
        """Take the bar down; more than once does no harm."""
        ...


class TerminalBar:
    """A progress bar on standard error, silent where that is not a terminal.

    Parameters
    ----------
    name : str
        What is shown before the bar.
    size : int
        Bytes that are expected. A server that compresses announces fewer than arrive, so the
        total that is assigned later is not taken over.
    """

    def __init__(self, name: str, size: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        console = Console(stderr=True)
        self.total = size
        self._done = 0
        self._size = size
        self._progress = Progress(
            "{task.description}",
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(name, total=size)
        self._progress.start()

    def update(self, n: int) -> None:
        """Count `n` further bytes; the last piece may be counted as larger than it is."""
        self._done = min(self._size, self._done + n)
        self._progress.update(self._task, completed=self._done)

    def reset(self) -> None:
        """Begin again at nothing."""
        self._done = 0
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Take the bar down."""
        self._progress.stop()


class _MirrorError(Exception):
    """One mirror did not give the file; the text says why."""


def download(entry: Entry, target: Path, progress: bool | ProgressBar = False) -> Path:
    """Download the file of an entry from its mirrors, in their order.

    Parameters
    ----------
    entry : Entry
        With mirrors, size and hash.
    target : path
        Where the file shall lie. It appears there complete and checked, or not at all.
    progress : bool or ProgressBar
        True for a bar on the terminal, or an object of one's own with `total`, `update`,
        `reset` and `close`.

    Raises
    ------
    FileError
        If no mirror gives the file, with the reason of each; or if it cannot be written.
    """
    make_home(target.parent)
    bar = TerminalBar(entry.name, entry.bytes or 0) if progress is True else progress
    reasons = []
    try:
        for url in entry.urls:
            try:
                return _from_mirror(entry, url, target, bar)
            except _MirrorError as error:
                reasons.append(f"  {url}: {error}")
    finally:
        if bar:
            bar.close()
    raise FileError(
        f"'{entry.name}' could not be downloaded:\n"
        + "\n".join(reasons)
        + "\nTry again later, or get the file in another way and run: "
        f"dwcl data import {entry.name} FILE"
    )


def _from_mirror(entry: Entry, url: str, target: Path, bar: bool | ProgressBar) -> Path:
    if bar:
        bar.reset()  # type: ignore[union-attr]
    fetch_to = pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT)
    with atomic(target) as partial:
        try:
            fetch_to(url, str(partial), None)
        except web.RequestException as error:
            raise _MirrorError(_reason(error)) from error
        if (trouble := difference(entry, partial)) is not None:
            raise _MirrorError(trouble)
    return target


def difference(entry: Entry, path: Path) -> str | None:
    """Tell how a file differs from the entry's, None when it is the same to the byte."""
    size = path.stat().st_size
    got = sha256_of(path)
    if got == entry.sha256:
        return None
    return (
        f"another file: {size:,} bytes with SHA-256 {got}; "
        f"expected {entry.bytes:,} bytes with SHA-256 {entry.sha256}"
    )


def _reason(error: web.RequestException) -> str:
    response = error.response
    if response is not None:
        words = {403: "access refused", 404: "not found", 429: "too many requests"}
        what = words.get(response.status_code, response.reason or "refused")
        return f"{what} (HTTP {response.status_code})"
    # The order matters: the later classes are parents of some of the earlier ones.
    if isinstance(error, web.ChunkedEncodingError):
        return "truncated: the connection ended before the file was complete"
    if isinstance(error, web.SSLError):
        return f"no secure connection ({error})"
    if isinstance(error, web.ProxyError):
        return f"the proxy refused ({error})"
    if isinstance(error, web.Timeout) or "timed out" in str(error):
        return f"no answer in time (waited {TIMEOUT[0]:g} s to connect, {TIMEOUT[1]:g} s to read)"
    if isinstance(error, web.ConnectionError):
        return "no connection; is there a network?"
    return f"{type(error).__name__}: {error}"
