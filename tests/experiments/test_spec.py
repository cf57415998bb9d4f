"""Specifications say what is run, and nothing in them is left out without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from dwcl.errors import DwclError
from dwcl.experiments.spec import parse_spec, read_spec, shipped, trials

HEAD = 'title = "t"\nseeds = [0]\n'


def test_trials_are_data_by_columns_by_seeds(tiny: str) -> None:
    found = trials(parse_spec(tiny, "here"))
    assert [(trial.column, trial.seed) for trial in found] == [
        ("kmeans", 0),
        ("kmeans", 1),
        ("concat-ae, balance=none", 0),
        ("concat-ae, balance=none", 1),
        ("concat-ae, balance=variance", 0),
        ("concat-ae, balance=variance", 1),
    ]
    assert {trial.data.title for trial in found} == {"blobs"}
    # A shared setting goes to the methods that have it, in its proper type.
    assert found[0].settings == {"n_init": 1}
    assert found[2].settings["encoder"] == (6,)
    assert found[2].settings["balance"] == "none"


def test_a_column_with_a_recipe_says_so() -> None:
    text = HEAD + (
        'data = ["catalogue:scene15", "catalogue:digits"]\n'
        '[[runs]]\nmethod = "dwcl"\n'
        '[[runs]]\nmethod = "dwcl"\nrecipe = { scene15 = "scene" }\ndata = ["scene15"]\n'
    )
    found = trials(parse_spec(text, "here"))
    assert [(t.data.title, t.column, t.recipe) for t in found] == [
        ("scene15", "dwcl", None),
        ("scene15", "dwcl (recipe)", "scene"),
        ("digits", "dwcl", None),
    ]
    assert found[1].settings["iterations"] == 4


def test_a_single_setting_is_stronger_than_the_recipe_and_the_shared_one() -> None:
    text = HEAD + (
        'data = ["catalogue:scene15"]\n[settings]\niterations = 9\nepochs = 7\n'
        '[[runs]]\nmethod = "dwcl"\nrecipe = "scene"\nsettings = { iterations = 2 }\n'
    )
    (found,) = trials(parse_spec(text, "here"))
    assert found.settings["iterations"] == 2
    assert found.settings["epochs"] == 100  # of the recipe


@pytest.mark.parametrize("name", sorted(shipped()))
def test_what_ships_is_sound(name: str) -> None:
    spec = read_spec(name)
    assert trials(spec)
    assert len(spec.seeds) >= 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "not understood: data"),
        ('data = []\n[[runs]]\nmethod = "kmeans"\n', "not understood: data"),
        ('data = ["a.csv"]\n', "not understood: runs"),
        ('data = ["a.csv"]\nruns = [{ method = "kmeens" }]\n', "Did you mean"),
        ('data = ["a.csv"]\nruns = [{ method = "kmeans", grid = { latent = [2] } }]\n', "latent"),
        (
            'data = ["a.csv"]\nruns = [{ method = "kmeans", settings = { random_state = 1 } }]\n',
            "'seeds'",
        ),
        (
            'data = ["a.csv"]\nruns = [{ method = "kmeans", grid = { n_clusters = [3] } }]\n',
            "'clusters'",
        ),
        (
            'data = ["a.csv"]\nsettings = { n_inits = 1 }\nruns = [{ method = "kmeans" }]\n',
            "n_init",
        ),
        ('data = ["a.csv"]\nruns = [{ method = "kmeans", data = ["b"] }]\n', "no data 'b'"),
        ('data = ["x/a.csv", "a.npz"]\nruns = [{ method = "kmeans" }]\n', "one name"),
        (
            (
                'data = ["a.csv"]\nruns = [{ method = "kmeans" }, '
                '{ method = "kmeans", settings = { n_init = 2 } }]\n'
            ),
            "Two different runs are called 'kmeans'",
        ),
        ('data = ["a.csv"]\nruns = [{ method = "dwcl", recipe = "none" }]\n', "no recipe 'none'"),
        ("data = [", "not TOML"),
    ],
)
def test_a_specification_that_makes_no_sense_is_refused(body: str, message: str) -> None:
    with pytest.raises(DwclError, match=message):
        parse_spec(HEAD + body, "here")


def test_a_name_that_is_nothing_is_answered_with_the_nearest() -> None:
    with pytest.raises(DwclError, match=r"no specification 'method'.*methods"):
        read_spec("method")
    with pytest.raises(DwclError, match="cannot be read"):
        read_spec("missing.toml")


def test_a_file_is_read(tmp_path: Path, tiny: str) -> None:
    (tmp_path / "mine.toml").write_text(tiny)
    assert read_spec(str(tmp_path / "mine.toml")) == parse_spec(tiny, "here")


def test_a_data_set_may_have_seeds_of_its_own() -> None:
    text = HEAD + (
        'data = ["a.csv", { source = "b.csv", seeds = [3, 3, 4] }]\n[[runs]]\nmethod = "kmeans"\n'
    )
    found = trials(parse_spec(text, "here"))
    assert [(trial.data.title, trial.seed) for trial in found] == [("a", 0), ("b", 3), ("b", 4)]
