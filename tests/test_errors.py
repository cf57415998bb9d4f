from __future__ import annotations

import copy
import pickle

import pytest

from dwcl import errors
from dwcl.errors import DwclError, MissingExtraError, nearest


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        (errors.DataError, ValueError),
        (errors.FileError, OSError),
        (errors.SettingError, ValueError),
        (errors.ModelError, ValueError),
        (errors.TrainingError, RuntimeError),
        (errors.MissingExtraError, ImportError),
    ],
)
def test_every_error_is_ours_and_one_of_pythons(
    kind: type[DwclError], parent: type[Exception]
) -> None:
    assert issubclass(kind, DwclError)
    assert issubclass(kind, parent)


@pytest.mark.parametrize(
    "kind",
    [
        errors.DataError,
        errors.FileError,
        errors.SettingError,
        errors.ModelError,
        errors.TrainingError,
    ],
)
def test_the_message_is_the_text_and_survives_a_process(kind: type[DwclError]) -> None:
    failure = kind("What came; what is expected.")
    assert str(failure) == "What came; what is expected."
    there_and_back = pickle.loads(pickle.dumps(failure))
    assert type(there_and_back) is kind
    assert str(there_and_back) == str(failure)


def test_a_missing_extra_says_how_to_install_it() -> None:
    failure = MissingExtraError("Reading data frames", "tables")
    assert str(failure) == (
        "Reading data frames needs an optional library that is not installed. "
        "Install it with: pip install 'dwcl[tables]'"
    )
    for copied in (copy.copy(failure), pickle.loads(pickle.dumps(failure))):
        assert type(copied) is MissingExtraError
        assert str(copied) == str(failure)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("temprature", "Did you mean 'temperature'?"),
        ("temperatur", "Did you mean 'temperature'?"),
        ("zzz", "Known: epochs, iterations, temperature."),
        ("", "Known: epochs, iterations, temperature."),
    ],
)
def test_the_nearest_name_or_all_names_in_order(name: str, hint: str) -> None:
    assert nearest(name, ["temperature", "iterations", "epochs"]) == hint


def test_the_nearest_name_may_come_from_any_iterable() -> None:
    assert nearest("scene_15", iter({"scene15": 1, "digits": 2})) == "Did you mean 'scene15'?"
