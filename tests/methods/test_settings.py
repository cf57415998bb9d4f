"""Settings are checked and parsed from the type hints of the constructors."""

from __future__ import annotations

import numpy as np
import pytest

from dwcl import DWCL
from dwcl.errors import SettingError
from dwcl.methods.settings import check_settings, parse_settings


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("temperature=0.5", "temperature", 0.5),
        ("encoder=500,500,2000", "encoder", (500, 500, 2000)),
        ("encoder=[64]", "encoder", (64,)),
        ("encoder=64,", "encoder", (64,)),
        ("encoder=64", "encoder", (64,)),
        ("decoder=64", "decoder", (64,)),
        ("decoder=None", "decoder", None),
        ("mechanism=pairwise", "mechanism", "pairwise"),
        ("self_pairs=False", "self_pairs", False),
        ("self_pairs=true", "self_pairs", True),
        ("scaling=none", "scaling", "none"),
        ('scaling={"rna": "standard"}', "scaling", {"rna": "standard"}),
        (" epochs = 7 ", "epochs", 7),
        ("learning_rate=1e-3", "learning_rate", 1e-3),
        ("quality_weight=0", "quality_weight", False),
    ],
)
def test_texts_become_typed_values(text: str, name: str, value: object) -> None:
    parsed = parse_settings(DWCL, [text])
    assert parsed == {name: value}
    assert type(parsed[name]) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("temprature=0.5", "no setting 'temprature'. Did you mean 'temperature'"),
        ("temperature", "the form is name=value"),
        ("temperature=hot", "temperature is 'hot'"),
        ("epochs=2.5", "epochs is 2.5"),
        ("epochs=-1", "epochs is -1; input should be greater than or equal to 0"),
        ("mechanism=all", "'best-other' or 'pairwise'"),
        ("encoder=500,wide", "encoder is"),
    ],
)
def test_what_cannot_be_is_worded(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse_settings(DWCL, [text])


def test_the_last_of_two_wins() -> None:
    assert parse_settings(DWCL, ["epochs=1", "epochs=2"]) == {"epochs": 2}


def test_numpy_scalars_are_plain_numbers() -> None:
    values = {"n_clusters": np.int32(4), "temperature": np.float32(0.5), "self_pairs": np.True_}
    checked = check_settings(DWCL, values)
    assert checked == {"n_clusters": 4, "temperature": 0.5, "self_pairs": True}


def test_the_defaults_pass() -> None:
    assert check_settings(DWCL, DWCL().get_params())["latent"] == 512
