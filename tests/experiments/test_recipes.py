"""The recipes are those of the paper's tables."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from dwcl import recipe
from dwcl.errors import SettingError
from dwcl.experiments.recipes import recipes
from dwcl.methods.registry import methods
from dwcl.methods.settings import check_settings


def test_every_recipe_fits_the_method() -> None:
    count = 0
    for method_name, method in methods().items():
        for name, found in recipes(method_name).items():
            assert check_settings(method, found.settings), (method_name, name)
            count += 1
    assert count >= len(recipes("dwcl")) > 0


def test_an_unknown_recipe_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingError) as failure:
        recipe("caltech5v8")
    assert str(failure.value) == (
        "There is no recipe 'caltech5v8' for the method 'dwcl'. Did you mean 'caltech5v7'?"
    )


def test_every_file_of_recipes_belongs_to_a_method() -> None:
    files = [
        file.name for file in resources.files("dwcl.experiments").joinpath("settings").iterdir()
    ]
    assert "dwcl.toml" in files
    assert {Path(file).stem for file in files} <= set(methods())


def test_the_paper_s_recipes_are_its_tables(shared_data: Path) -> None:
    source = shared_data.parent / "paper" / "dwcl.tex"
    if not source.exists():
        pytest.skip(f"the source of the paper is not at {source}")
    text = source.read_text()
    networks = re.findall(
        r"^\s*(\w+)\s*&\s*\[([\d, ]+)\]\s*&\s*(\d+)\s*&\s*(\d+)\s*\\\\", text, re.MULTILINE
    )
    table = text[text.index("Training Hyperparameters for All Datasets") :]
    table = table[: table.index("end{table}")]
    schedule = r"^\s*(\w+)\s*& (\d+) & (\d+) ?& ?(\d+)"
    schedules = {
        name.lower(): tuple(map(int, numbers))
        for name, *numbers in re.findall(schedule, table, re.MULTILINE)
    }
    assert len(networks) == len(schedules) == 8
    for name, widths, latent, embedding in networks:
        found = recipe(name.lower())
        assert found.origin == "paper"
        assert found.widths == tuple(map(int, widths.split(",")))
        settings = found.settings
        assert (settings["latent"], settings["embedding"]) == (int(latent), int(embedding))
        order = ("pretrain_epochs", "iterations", "epochs")
        assert tuple(settings[key] for key in order) == schedules[name.lower()]
