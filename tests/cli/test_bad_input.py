"""Bad input, one by one: one message that says what came and what to do, and nothing written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from safetensors.numpy import load_file, save_file

from dwcl import MultiView
from dwcl.data.writers import write_npz

Command = Callable[..., Any]
Prepare = Callable[[MultiView], None]

FIT = ("fit", "in", "-k", "3")


@dataclass(frozen=True)
class Case:
    """What is done wrong, with what command, and the words that its message must have."""

    name: str
    prepare: Prepare
    args: tuple[str, ...]
    words: tuple[str, ...]


def nothing(_: MultiView) -> None:
    """Leave the folder as it is."""


def save(data: MultiView, name: str) -> None:
    write_npz(data, Path(name))


def with_value(value: float) -> Prepare:
    """Put one value into the second view, row 4, column 1."""

    def prepare(data: MultiView) -> None:
        view = np.array(data["view2"])
        view[4, 1] = value
        save(MultiView({"view1": data["view1"], "view2": view}), "in.npz")

    return prepare


def constant_view(data: MultiView) -> None:
    save(MultiView({"view1": data["view1"], "view2": np.full((40, 3), 7.0)}), "in.npz")


def matlab(**variables: Any) -> Prepare:
    return lambda data: scipy.io.savemat("in.mat", variables)


def mat_of_views(data: MultiView) -> None:
    variables = {"X1": data["view1"], "X2": data["view2"], "Y": data.labels}
    scipy.io.savemat("in.mat", variables)


def truncated(data: MultiView) -> None:
    mat_of_views(data)
    content = Path("in.mat").read_bytes()
    Path("in.mat").write_bytes(content[: len(content) // 2])


def other_lengths(data: MultiView) -> None:
    scipy.io.savemat("in.mat", {"X1": data["view1"], "X2": np.asarray(data["view2"])[:31]})


def few_labels(data: MultiView) -> None:
    save(data, "in.npz")
    Path("classes.csv").write_text("1\n2\n3\n")


def one_sample(data: MultiView) -> None:
    save(data.take([0]), "in.npz")


def text(content: str, name: str = "in.csv") -> Prepare:
    return lambda data: _write(name, content)


def _write(name: str, content: str) -> None:
    Path(name).write_text(content)


class Trap:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("sprung",)


def object_arrays(data: MultiView) -> None:
    views = np.empty(2, dtype=object)
    views[:] = [data["view1"], Trap()]
    np.savez("in.npz", X=views)
    assert b"mkdir" in Path("in.npz").read_bytes()


def edited(**changes: Any) -> Prepare:
    """Change the description of the model in the run folder."""

    def prepare(data: MultiView) -> None:
        save(data, "in.npz")
        path = Path("run/model.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return prepare


def tensors(change: Callable[[dict[str, Any]], None]) -> Prepare:
    def prepare(data: MultiView) -> None:
        save(data, "in.npz")
        held = load_file("run/model.safetensors")
        change(held)
        save_file(held, "run/model.safetensors")

    return prepare


def other_widths(data: MultiView) -> None:
    save(MultiView({"view1": data["view1"], "view2": np.asarray(data["view2"])[:, :4]}), "in.npz")


def good(data: MultiView) -> None:
    save(data, "in.npz")


def taken(data: MultiView) -> None:
    good(data)
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("years of work")


def a_file_in_the_way(data: MultiView) -> None:
    good(data)
    Path("mine").write_text("years of work")


def facts_missing(data: MultiView) -> None:
    Path("run/run.json").write_text("{}")


def history_garbled(data: MultiView) -> None:
    Path("run/history.jsonl").write_text("[1]\n")


def ragged(data: MultiView) -> None:
    _write("in.csv", "a_1,a_2,b_1\n" + "1,2,3\n" * 5 + "1,2\n" + "4,5,6\n")


NUMBERS = "".join(f"{i},{i * i},{i % 3}\n" for i in range(10))
FILE = ("fit", "in.npz", "-k", "3")
MAT = ("fit", "in.mat", "-k", "3")
CSV = ("fit", "in.csv", "-k", "3")
PREDICT = ("predict", "run", "in.npz")

CASES = [
    Case("missing file", good, ("fit", "im.npz", "-k", "3"), ("'im.npz'", "Did you mean 'in.npz'")),
    Case(
        "missing folder",
        nothing,
        ("fit", "no/in.npz", "-k", "3"),
        ("There is no no/in.npz: the folder no does not exist",),
    ),
    Case(
        "folder without tables",
        lambda data: Path("in").mkdir(),
        FIT,
        ("nothing to read in the folder in", ".npy"),
    ),
    Case("empty file", text("", "in.mat"), MAT, ("in.mat is empty (0 bytes)", "Get it again")),
    Case("truncated .mat", truncated, MAT, ("in.mat", "damaged", "Get it again")),
    Case(
        "no matrix",
        matlab(name="text", n=3.0),
        MAT,
        ("name (text)", "n (1 × 1)", "matrices of numbers"),
    ),
    Case("unknown format", text("x", "in.xyz"), ("fit", "in.xyz", "-k", "3"), ("no known format",)),
    Case("different n", other_lengths, MAT, ("X1", "X2", "40", "31")),
    Case(
        "labels of another length",
        few_labels,
        (*FILE, "--labels", "classes.csv"),
        ("classes.csv", "3", "40"),
    ),
    Case("unknown labels", mat_of_views, (*MAT, "--labels", "Z"), ("labels='Z'", "X1, X2, Y")),
    Case(
        "unknown view",
        good,
        (*FILE, "--views", "view3"),
        ("There is no view 'view3'", "Did you mean 'view2'"),
    ),
    Case("one sample", one_sample, FILE, ("1 sample", "at least 2")),
    Case("k = 0", good, ("fit", "in.npz", "-k", "0"), ("--clusters is '0'", "from 2")),
    Case("k = 1", good, ("fit", "in.npz", "-k", "1"), ("--clusters is '1'", "from 2")),
    Case("k > n", good, ("fit", "in.npz", "-k", "41"), ("41", "40 samples", "at most")),
    Case("k in words", good, ("fit", "in.npz", "-k", "three"), ("'three'", "'labels'")),
    Case(
        "k from labels that are not there",
        lambda data: save(data.with_labels(None), "in.npz"),
        ("fit", "in.npz", "-k", "labels"),
        ("needs labels", "Give a number"),
    ),
    Case("text in a CSV", text("a_1,a_2,b_1\n" + NUMBERS + "1,two,3\n"), CSV, ("two", "a_2")),
    Case("ragged CSV", ragged, CSV, ("in.csv", "line 7")),
    Case("NaN", with_value(np.nan), FILE, ("NaN", "view2")),
    Case("infinity", with_value(np.inf), FILE, ("view2", "infin")),
    Case("constant view", constant_view, FILE, ("view2", "constant")),
    Case(
        "complex",
        matlab(X1=np.ones((9, 3)) * 1j, X2=np.eye(9)[:, :4], Y=np.arange(9) % 3),
        MAT,
        ("X1", "complex"),
    ),
    Case("object arrays", object_arrays, FILE, ("'X'", "never unpickled", "array of numbers")),
    Case("future format", edited(format=99), PREDICT, ("format 99", "Install the version")),
    Case("tensor missing", tensors(lambda t: t.pop("centres")), PREDICT, ("'centres' is missing",)),
    Case(
        "tensor of another shape",
        tensors(lambda t: t.update(centres=t["centres"][:2])),
        PREDICT,
        ("'centres' has shape [2, 12]", "[3, 12] is expected"),
    ),
    Case("unknown method in a model", edited(method="dwlc"), PREDICT, ("'dwlc'", "'dwcl'")),
    Case("other widths", other_widths, PREDICT, ("view2", "4 features", "5")),
    Case(
        "views of other names",
        lambda data: save(MultiView({"a": data["view1"], "b": data["view2"]}), "in.npz"),
        PREDICT,
        ("view1", "a"),
    ),
    Case("no run", good, ("predict", "nowhere", "in.npz"), ("nowhere", "not a model folder")),
    Case("no run to show", nothing, ("show", "nowhere"), ("nowhere", "not a run folder")),
    Case(
        "facts missing",
        facts_missing,
        ("show", "run"),
        ("run.json does not state dwcl, method, seed",),
    ),
    Case("history garbled", history_garbled, ("show", "run"), ("history.jsonl",)),
    Case("folder taken", taken, (*FILE, "--out", "mine"), ("mine", "nothing is overwritten")),
    Case("not a run", taken, (*FILE, "--out", "mine", "--force"), ("not a run of dwcl",)),
    Case("file in the way", a_file_in_the_way, (*FILE, "--out", "mine"), ("mine is a file",)),
    Case(
        "output below a file",
        a_file_in_the_way,
        (*FILE, "--out", "mine/run"),
        ("Cannot write mine/run", "mine is a file"),
    ),
    Case(
        "output of predict below a file",
        a_file_in_the_way,
        (*PREDICT, "--out", "mine/labels.csv"),
        ("Cannot write mine/labels.csv",),
    ),
    Case(
        "output of predict in no folder",
        good,
        (*PREDICT, "--out", "no/labels.csv"),
        ("Cannot write no/labels.csv", "folder that exists"),
    ),
    Case(
        "unknown setting", good, (*FILE, "--set", "temprature=1"), ("Did you mean 'temperature'",)
    ),
    Case("no setting", good, (*FILE, "--set", "temperature"), ("the form is name=value",)),
    Case("setting out of range", good, (*FILE, "--set", "temperature=0"), ("temperature is 0",)),
    Case("unknown scaling", good, (*FILE, "--set", "scaling=minmx"), ("minmx", "minmax")),
    Case("unknown device", good, (*FILE, "--set", "device=gpu"), ("'gpu'", "'cpu'")),
    Case("unknown recipe", good, (*FILE, "--recipe", "sceen"), ("Did you mean 'scene'",)),
    Case("unknown method", good, (*FILE, "--method", "dwlc"), ("Did you mean 'dwcl'",)),
    Case(
        "unknown data set",
        nothing,
        ("fit", "catalogue:scene51", "-k", "3"),
        ("no data set 'scene51'", "Did you mean 'scene15'"),
    ),
    Case("data set as a file", nothing, ("fit", "scene15", "-k", "3"), ("catalogue:scene15",)),
    Case(
        "data set of a drive", nothing, ("fit", "catalogue:dha", "-k", "3"), ("dwcl data import",)
    ),
    Case(
        "import of no file",
        nothing,
        ("data", "import", "dha", "no.mat"),
        ("no.mat does not exist",),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_refused_with_one_message(
    dwcl: Command,
    run: Path,
    data: MultiView,
    small_options: list[str],
    everything: Callable[[], dict[str, bytes | None]],
    case: Case,
) -> None:
    case.prepare(data)
    before = everything()
    # The small settings come first, so that a case's own are the last word.
    command, *rest = case.args
    options = {"fit": ["-q", *small_options], "predict": ["-q"], "evaluate": ["-q"]}
    done = dwcl(command, *options.get(command, []), *rest)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("dwcl: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    for words in case.words:
        assert words in done.stderr
    assert everything() == before


def test_the_trap_would_spring(place: Path, data: MultiView) -> None:
    object_arrays(data)
    with np.load("in.npz", allow_pickle=True) as arrays:
        assert arrays["X"].shape == (2,)
    assert Path("sprung").is_dir()
