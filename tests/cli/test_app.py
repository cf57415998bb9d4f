"""Help, version and wrong usage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dwcl as package

Command = Callable[..., Any]

COMMANDS = ("fit", "predict", "evaluate", "show", "demo", "methods", "recipes")
DATA_COMMANDS = ("list", "show", "fetch", "import", "build")


def test_the_version(dwcl: Command) -> None:
    assert dwcl("--version").stdout == f"dwcl {package.__version__}\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_lists_every_command_on_one_line_each(dwcl: Command, option: str) -> None:
    done = dwcl(option)
    assert done.exit_code == 0
    first_words = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert set(COMMANDS) | {"data"} <= set(first_words)
    assert "..." not in done.stdout.partition("Commands:")[2]


def test_the_help_of_data(dwcl: Command) -> None:
    listed = dwcl("data", "-h").stdout.partition("Commands:")[2]
    assert [line.split()[0] for line in listed.splitlines() if line] == list(DATA_COMMANDS)
    assert "..." not in listed


@pytest.mark.parametrize(
    "command", [*((name,) for name in COMMANDS), *(("data", name) for name in DATA_COMMANDS)]
)
def test_every_command_has_help_in_which_nothing_is_swallowed(
    dwcl: Command, command: tuple[str, ...]
) -> None:
    done = dwcl(*command, "-h")
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert text.startswith(f"Usage: dwcl {' '.join(command)}")
    assert " ." not in text  # what a swallowed "[default: …]" leaves
    if "--transpose" in text:
        assert "[default: found out]" in text
    if command == ("fit",):
        assert "[default: runs/NAME]" in text


def test_nothing_at_all_shows_the_help(dwcl: Command) -> None:
    for args in ((), ("data",)):
        done = dwcl(*args)
        assert "Commands:" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("fti", "x"), "Did you mean 'fit'"),
        (("data", "shwo", "x"), "Did you mean 'show'"),
        (("fit", "x", "-k", "2", "--qiuet"), "--quiet"),
        (("fit",), "DATA"),
        (("fit", "x", "-k", "2", "--seed", "one"), "Invalid value for '--seed'"),
        (("fit", "x", "-k", "2", "--seed", "-1"), "Invalid value for '--seed'"),
        (("predict", "run"), "DATA"),
    ],
)
def test_wrong_usage_is_said_with_what_is_near(
    dwcl: Command, args: tuple[str, ...], words: str
) -> None:
    done = dwcl(*args)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert "Traceback" not in done.stderr
