from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from requests import exceptions as web_errors

from dwcl.data import download as module
from dwcl.data.catalogue import Entry
from dwcl.data.download import TerminalBar, download
from dwcl.errors import FileError

CONTENT = bytes(range(256)) * 40

Make = Callable[..., Entry]


class Recorder:
    """A progress object that writes down what happens to it."""

    def __init__(self) -> None:
        self.total = 0
        self.calls: list[str] = []
        self.counted = 0

    def update(self, n: int) -> None:
        self.counted += n

    def reset(self) -> None:
        self.calls.append("reset")
        self.counted = 0

    def close(self) -> None:
        self.calls.append("close")


def test_a_file_is_downloaded(web: Any, make_entry: Make, tmp_path: Path) -> None:
    entry = make_entry(CONTENT, web.put("/a", CONTENT))
    path = download(entry, tmp_path / "home" / "tiny.bin")
    assert path == tmp_path / "home" / "tiny.bin"
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]


def test_the_second_mirror_is_asked_when_the_first_fails(
    web: Any, make_entry: Make, tmp_path: Path
) -> None:
    good = web.put("/good", CONTENT)
    entry = make_entry(CONTENT, web.address + "/gone", good, web.put("/spare", CONTENT))
    assert download(entry, tmp_path / "tiny.bin").read_bytes() == CONTENT
    assert web.asked == ["/gone", "/good"]


def test_all_reasons_are_said_and_nothing_is_left(
    web: Any, make_entry: Make, tmp_path: Path
) -> None:
    wrong = CONTENT[:-1] + b"!"
    entry = make_entry(
        CONTENT,
        web.address + "/gone",
        web.put("/closed", b"", status=403),
        web.put("/broken", b"", status=500),
        web.put("/wrong", wrong),
        web.put("/short", CONTENT[:1000], announced=len(CONTENT)),
        "http://127.0.0.1:9/nobody",
        "gopher://127.0.0.1/old",
    )
    with pytest.raises(FileError) as caught:
        download(entry, tmp_path / "tiny.bin")
    lines = str(caught.value).splitlines()
    assert lines[0] == "'tiny' could not be downloaded:"
    assert [line.partition(": ")[2] for line in lines[1:4]] == [
        "not found (HTTP 404)",
        "access refused (HTTP 403)",
        "Internal Server Error (HTTP 500)",
    ]
    assert f"another file: {len(wrong):,} bytes with SHA-256 " in lines[4]
    assert f"expected {len(CONTENT):,} bytes with SHA-256 {entry.sha256}" in lines[4]
    assert "/short: truncated: the connection ended before" in lines[5]
    assert "nobody: no connection; is there a network?" in lines[6]
    assert "InvalidSchema" in lines[7]
    assert "dwcl data import tiny FILE" in lines[8]
    assert list(tmp_path.iterdir()) == []


def test_a_silent_server_is_not_waited_for(
    web: Any, make_entry: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", (1.0, 0.1))
    entry = make_entry(CONTENT, web.put("/stall", CONTENT))
    with pytest.raises(FileError, match=r"no answer in time \(waited 1 s to connect, 0.1 s"):
        download(entry, tmp_path / "tiny.bin")


def test_a_failed_download_leaves_the_earlier_file(
    web: Any, make_entry: Make, tmp_path: Path
) -> None:
    target = tmp_path / "tiny.bin"
    target.write_bytes(b"earlier")
    with pytest.raises(FileError):
        download(make_entry(CONTENT, web.put("/wrong", b"other")), target)
    assert target.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [target]


def test_what_an_interrupted_run_left_is_not_taken_up(
    web: Any, make_entry: Make, tmp_path: Path
) -> None:
    stale = tmp_path / ".tiny.bin.0123abcd"
    stale.write_bytes(CONTENT[:500])
    entry = make_entry(CONTENT, web.put("/a", CONTENT))
    assert download(entry, tmp_path / "tiny.bin").read_bytes() == CONTENT
    assert stale.read_bytes() == CONTENT[:500]


def test_an_interrupted_download_leaves_nothing(web: Any, make_entry: Make, tmp_path: Path) -> None:
    class Interrupting(Recorder):
        def update(self, n: int) -> None:
            raise KeyboardInterrupt

    bar = Interrupting()
    entry = make_entry(CONTENT, web.put("/a", CONTENT))
    with pytest.raises(KeyboardInterrupt):
        download(entry, tmp_path / "tiny.bin", bar)
    assert list(tmp_path.iterdir()) == []
    assert bar.calls[-1] == "close"
    assert download(entry, tmp_path / "tiny.bin").read_bytes() == CONTENT


def test_a_folder_that_cannot_be_written_stops_at_once(
    web: Any, make_entry: Make, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    entry = make_entry(CONTENT, web.put("/a", CONTENT), web.put("/b", CONTENT))
    with pytest.raises(FileError, match=r"Cannot make the folder of data sets .*file"):
        download(entry, tmp_path / "file" / "tiny.bin")
    assert web.asked == []


def test_progress_is_reported_for_every_mirror(web: Any, make_entry: Make, tmp_path: Path) -> None:
    bar = Recorder()
    entry = make_entry(CONTENT, web.address + "/gone", web.put("/a", CONTENT))
    download(entry, tmp_path / "tiny.bin", bar)
    assert (bar.total, bar.counted) == (len(CONTENT), len(CONTENT))
    assert bar.calls[:2] == ["reset", "reset"]
    assert bar.calls[-1] == "close"


def test_progress_is_silent_where_there_is_no_terminal(
    web: Any, make_entry: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = make_entry(CONTENT, web.put("/a", CONTENT))
    download(entry, tmp_path / "tiny.bin", progress=True)
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_fills_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    screen = sys.stderr
    bar = TerminalBar("tiny", 2000)
    bar.update(1500)
    bar.reset()
    bar.total = 5  # what a compressing server announces does not count
    bar.update(1024)
    bar.update(1024)
    bar.close()
    bar.close()
    text = screen.getvalue()  # type: ignore[attr-defined]
    assert "tiny" in text
    assert "2.0/2.0 kB" in text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (web_errors.SSLError("bad certificate"), "no secure connection (bad certificate)"),
        (web_errors.ProxyError("tunnel"), "the proxy refused (tunnel)"),
        (web_errors.ConnectionError("Read timed out."), "no answer in time"),
        (web_errors.ConnectTimeout("late"), "no answer in time"),
        (web_errors.ConnectionError("no route"), "no connection; is there a network?"),
    ],
)
def test_reasons_are_told_apart(
    error: Exception,
    words: str,
    make_entry: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> None:
        raise error

    monkeypatch.setattr(module.pooch, "HTTPDownloader", lambda **options: fail)
    with pytest.raises(FileError) as caught:
        download(make_entry(CONTENT, "http://example.org/a"), tmp_path / "tiny.bin")
    assert f"http://example.org/a: {words}" in str(caught.value)
