"""Errors become one message and a status, here and nowhere else."""

from __future__ import annotations

import logging
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import dwcl.cli
from dwcl.cli.guard import guarded
from dwcl.errors import DataError, FileError, MissingExtraError, TrainingError


def ended(capsys: pytest.CaptureFixture[str], failure: BaseException) -> tuple[int, str]:
    """Status and message of a command that raises `failure`."""

    def command() -> None:
        raise failure

    with pytest.raises(typer.Exit) as end:
        guarded(command)()
    assert end.value.__suppress_context__
    captured = capsys.readouterr()
    assert captured.out == ""
    return end.value.exit_code, captured.err


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (DataError("There is [no] view 'a[b]'."), "There is [no] view 'a[b]'."),
        (FileError("Cannot write."), "Cannot write."),
        (TrainingError("The loss became nan."), "The loss became nan."),
        (
            MissingExtraError("Reading Parquet", "tables"),
            str(MissingExtraError("Reading Parquet", "tables")),
        ),
        (
            PermissionError(13, "Permission denied", "/root/x"),
            "/root/x: Permission denied. Check the path and its permissions.",
        ),
        (OSError("device gone"), "device gone. Check the path and its permissions."),
    ],
)
def test_what_a_user_can_cause_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], failure: Exception, message: str
) -> None:
    assert ended(capsys, failure) == (2, f"dwcl: {message}\n")


def test_an_interrupt_has_its_own_status(capsys: pytest.CaptureFixture[str]) -> None:
    status, message = ended(capsys, KeyboardInterrupt())
    assert status == 130
    assert message == "dwcl: Interrupted; nothing half-written is left.\n"


def test_a_long_message_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = "word " * 100
    assert ended(capsys, DataError(words))[1] == f"dwcl: {words}\n"


def test_a_mistake_of_the_program_is_not_hidden() -> None:
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        guarded(command)()


def test_a_command_keeps_its_name_its_arguments_and_its_result() -> None:
    def command(a: int, *, b: int = 1) -> int:
        """Say something."""
        return a + b

    wrapped = guarded(command)
    assert (wrapped.__name__, wrapped.__doc__) == ("command", "Say something.")
    assert wrapped(1, b=2) == 3


def test_a_reader_that_has_gone_ends_the_command_silently(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)

        def command() -> None:
            print("a word")  # noqa: T201 - lies in the buffer until the guard writes it out

        with pytest.raises(typer.Exit) as end:
            guarded(command)()
        assert end.value.exit_code == 141
    assert capfd.readouterr() == ("", "")


def test_a_console_leaves_a_reader_that_has_gone_to_the_guard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dwcl.cli.console import output

    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(typer.Exit) as end:
            guarded(lambda: output().print("a word"))()
        assert end.value.exit_code == 141


def test_warnings_of_the_package_are_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        logging.getLogger("dwcl.data").warning("2 samples [left] out: %s", "x " * 80)
        logging.getLogger("dwcl.data").info("not this")
        logging.getLogger("other").info("nor this")

    for _ in range(2):
        guarded(command)()
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == f"2 samples [left] out: {'x ' * 80}\n"


def test_an_interrupt_while_the_program_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "dwcl.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "dwcl.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        dwcl.cli.main()
    assert end.value.code == 130


def test_the_program_runs_the_command_that_its_arguments_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dwcl", "--version"])
    for start in (dwcl.cli.main, lambda: runpy.run_module("dwcl", run_name="__main__")):
        with pytest.raises(SystemExit) as end:
            start()
        assert end.value.code == 0
        assert capsys.readouterr().out == f"dwcl {dwcl.__version__}\n"


def test_no_error_of_the_file_system_escapes(
    dwcl: Callable[..., Any], place: Path, file: Path
) -> None:
    for args in (("data", "show", "x" * 300), ("show", "x" * 300), ("predict", "x" * 300, file)):
        done = dwcl(*args)
        assert done.exit_code == 2
        assert done.stderr.startswith("dwcl: ")
        assert "File name too long" in done.stderr
