"""The program as a process of its own: status, streams, interrupts and closed pipes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

MODULE = (sys.executable, "-m", "dwcl")
# A process that was started in the background of a shell may have inherited a deaf ear.
LISTENING = (
    sys.executable,
    "-c",
    """import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from dwcl.cli import main
main()""",
)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("data", "show", "no.mat"), "dwcl: There is no file or folder 'no.mat'"),
        (("data", "show", "catalogue:scene51"), "dwcl: There is no data set 'scene51'"),
        (("show", "--jsno"), "No such option: --jsno"),
    ],
)
def test_bad_input_ends_with_status_2_and_no_traceback(args: tuple[str, ...], message: str) -> None:
    done = subprocess.run((*MODULE, *args), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_output_holds_one_json_object(file: Path, small_options: list[str]) -> None:
    done = subprocess.run(
        (*MODULE, "fit", str(file), "-k", "3", "--json", *small_options),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["n_clusters"] == 3
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_fit_saves_its_state_and_says_how_to_go_on(
    place: Path, file: Path, small_options: list[str], number: signal.Signals
) -> None:
    options = [*small_options, "--set", "pretrain_epochs=1000000", "--out", "run"]
    with subprocess.Popen(
        (*LISTENING, "fit", str(file), "-k", "3", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        # Reading would wait for ever on a program that says nothing.
        timer = threading.Timer(60, process.kill)
        timer.start()
        try:
            assert process.stderr is not None
            assert any(line.startswith("pretrain: epoch") for line in process.stderr)
            process.send_signal(number)
            stdout, stderr = process.communicate()
        finally:
            timer.cancel()
            process.kill()
    assert process.returncode == 128 + number
    assert stdout == ""
    assert stderr.splitlines()[-1] == "dwcl: Interrupted. Go on with: dwcl resume run"
    assert "Traceback" not in stderr
    assert sorted(path.name for path in place.iterdir()) == ["data.npz", "run.unfinished"]
    assert sorted(path.name for path in (place / "run.unfinished").iterdir()) == [
        "checkpoint-000001.json",
        "checkpoint-000001.safetensors",
        "job.json",
        "lock",
        "run.lock",
    ]


@pytest.mark.parametrize("args", [("data", "list"), ("data", "list", "--json"), ("recipes",)])
def test_a_reader_that_goes_early_is_no_error(args: tuple[str, ...]) -> None:
    with subprocess.Popen(
        (*MODULE, *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141
