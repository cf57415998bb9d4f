"""Views by the prefixes of column names: what counts, and what is refused as open."""

from __future__ import annotations

import pytest

from dwcl.data.readers.prefixes import by_prefix
from dwcl.errors import DataError


def views(names, wanted=None):
    return by_prefix(names, len(names), wanted)


def numbered(**counts):
    return [f"{prefix}_{i}" for prefix, count in counts.items() for i in range(count)]


@pytest.mark.parametrize("mark", [":", ".", "_"])
def test_prefixes_make_views_of_the_positions(mark):
    names = [f"{prefix}{mark}{gene}" for gene in "abc" for prefix in ("rna", "prot")]
    assert views(names) == {"rna": [0, 2, 4], "prot": [1, 3, 5]}


@pytest.mark.parametrize(
    "names",
    [
        ["age_years", "heart_rate", "pulse_max"],
        ["f_1", "f_2", "f_3"],
        ["a_1", "a_2", "b"],
        ["a_", "b_", "_c", "_d"],
        ["400.1", "400.2", "401.1", "401.2"],
    ],
)
def test_names_that_are_no_prefixes_make_one_view(names):
    assert views(names) == {"view1": list(range(len(names)))}


def test_columns_without_names_make_one_view():
    assert by_prefix(None, 3, None) == {"view1": [0, 1, 2]}
    with pytest.raises(DataError, match=r"no view 'rna'\. Known: view1"):
        by_prefix(None, 3, ["rna"])


def test_the_mark_that_makes_the_fewest_views_counts():
    names = ["rna_a.1", "rna_a.2", "rna_b.1", "rna_b.2", "age_a.1", "age_a.2"]
    assert views(names) == {"rna": [0, 1, 2, 3], "age": [4, 5]}


@pytest.mark.parametrize("left", ["celltype", "cell_type"])
def test_a_column_that_belongs_to_no_prefix_is_refused_with_the_ways_out(left):
    names = [*numbered(rna=4, prot=3), left]
    with pytest.raises(DataError) as caught:
        views(names)
    assert str(caught.value) == (
        f"Column prefixes make the views rna, prot, but 1 column belongs to none of them: {left}. "
        f"Say what is meant: labels='{left}' (--labels {left}) if it holds the classes, "
        f"id_column='{left}' (--id-column {left}) if it holds sample ids, views=['rna', 'prot'] "
        "(--views rna,prot) to leave out what has no prefix, or views=['view1'] (--views view1) "
        "for one table of all columns."
    )
    assert views(names, ["rna", "prot"]) == {"rna": [0, 1, 2, 3], "prot": [4, 5, 6]}
    assert views(names, ["view1"]) == {"view1": list(range(8))}


def test_a_prefix_of_one_column_is_a_view_when_it_is_named():
    assert views([*numbered(rna=3, prot=3), "age_years"], ["age", "rna"]) == {
        "age": [6],
        "rna": [0, 1, 2],
    }


def test_many_columns_without_a_prefix_are_counted_and_the_first_named():
    names = [*numbered(a=2, b=2, c=2, d=2, e=2, f=2), *"uvwxyz"]
    with pytest.raises(DataError, match=r"views a, b, c, d, e, …, but 6 columns belong to none"):
        views(names)
    with pytest.raises(DataError, match=r"none of them: u, v, w, x, y, …\. .*a,b,c,d,e,…\)"):
        views(names)


@pytest.mark.parametrize("mark", ["_", "."])
def test_prefixes_of_few_columns_are_refused_with_both_readings(mark):
    names = [f"{part}{mark}{side}" for part in ("sepal", "petal") for side in ("length", "width")]
    with pytest.raises(
        DataError,
        match=r"4 columns can be read in two ways: as one table, or as the 2 views sepal, petal "
        r".*--views view1\) .*--views sepal,petal\)",
    ):
        views(names)
    with pytest.raises(DataError, match="in two ways"):
        views([*names, f"sepal{mark}area"])
    assert views(names, ["sepal", "petal"]) == {"sepal": [0, 1], "petal": [2, 3]}
    assert views(names, ["view1"]) == {"view1": [0, 1, 2, 3]}


def test_a_colon_means_views_even_of_few_columns():
    assert views(["rna:a", "rna:b", "age:x", "age:y"]) == {"rna": [0, 1], "age": [2, 3]}


def test_a_small_view_beside_a_large_one_stays_a_view():
    assert list(views(numbered(rna=20, clinic=2))) == ["rna", "clinic"]


def test_views_that_are_not_there_are_refused_with_the_nearest():
    with pytest.raises(DataError, match=r"no view 'protein'\. Did you mean 'prot'\?"):
        views(numbered(rna=3, prot=3), ["rna", "protein"])
