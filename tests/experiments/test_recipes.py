"""The recipes are those of the paper's tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dwcl import DWCL, recipe
from dwcl.errors import SettingError
from dwcl.experiments.recipes import recipes
from dwcl.methods.settings import check_settings


def test_every_recipe_fits_the_method() -> None:
    for name, found in recipes().items():
        assert check_settings(DWCL, found.settings), name


def test_an_unknown_recipe_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"no recipe 'caltech5v8'. Did you mean 'caltech5v7'"):
        recipe("caltech5v8")


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
