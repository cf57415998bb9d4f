"""``dwcl methods`` and ``dwcl recipes``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from dwcl import DWCL, recipe

Command = Callable[..., Any]


def test_the_methods_with_their_first_words(dwcl: Command) -> None:
    done = dwcl("methods")
    assert done.exit_code == 0
    assert "Dual-Weighted Contrastive Learning." in done.stdout
    assert json.loads(dwcl("methods", "--json").stdout)["dwcl"] == (
        "Dual-Weighted Contrastive Learning."
    )


def test_the_settings_of_a_method_as_they_can_be_given(dwcl: Command) -> None:
    done = dwcl("methods", "dwcl")
    rows = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    defaults = {
        name: value
        for name, value in DWCL().get_params().items()
        if name not in ("n_clusters", "random_state")
    }
    assert rows.pop("setting") == "default"
    assert set(rows) == set(defaults)
    assert rows["encoder"] == "500,500,2000"
    assert rows["decoder"] == "None"
    assert rows["learning_rate"] == "0.0003"
    found = json.loads(dwcl("methods", "dwcl", "--json").stdout)
    assert found == json.loads(json.dumps(defaults))


def test_an_unknown_method(dwcl: Command) -> None:
    done = dwcl("methods", "dwlc")
    assert done.exit_code == 2
    assert done.stderr == "dwcl: There is no method 'dwlc'. Did you mean 'dwcl'?\n"


def test_the_recipes(dwcl: Command) -> None:
    done = dwcl("recipes")
    assert done.exit_code == 0
    assert "pretrain_epochs=30" in done.stdout
    found = json.loads(dwcl("recipes", "--json").stdout)["dwcl"]
    assert found == json.loads(dwcl("recipes", "dwcl", "--json").stdout)["dwcl"]
    assert found["scene"]["settings"] == recipe("scene").settings
    assert found["scene"]["widths"] == [20, 59, 40]
