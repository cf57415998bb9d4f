"""Docstrings are read in their parts, and their markup becomes Markdown."""

from __future__ import annotations

import pytest

from dwcl.report.docstrings import Docstring, Entry, as_cell, as_markdown, as_program, entries


class Told:
    r"""What it is: a thing.

    An idea with :math:`H^v`,
    in two lines.

    .. math::

        L = \sum_v \ell_v

    The end.

    Notes
    -----
    - One.

    Parameters
    ----------
    k : int, default=8
        Number of clusters.
    latent, embedding : int, default=512, 128
        Widths,
        in two lines.

    Examples
    --------
    >>> 1 + 1
    2
    """


class Bare:
    pass


# -- the parts -------------------------------------------------------------------------------------


def test_a_docstring_falls_into_its_parts() -> None:
    told = Docstring.of(Told)
    assert told.title == "What it is: a thing"
    assert told.text.startswith("An idea with")
    assert told.text.endswith("The end.")
    assert dict(told.sections) == {
        "Notes": "- One.",
        "Parameters": (
            "k : int, default=8\n    Number of clusters.\n"
            "latent, embedding : int, default=512, 128\n    Widths,\n    in two lines."
        ),
        "Examples": ">>> 1 + 1\n2",
    }


def test_a_class_without_a_docstring_has_empty_parts() -> None:
    assert Docstring.of(Bare) == Docstring("", "", {})


def test_entries_have_names_kinds_and_texts() -> None:
    assert entries(Docstring.of(Told).sections["Parameters"]) == [
        Entry(("k",), "int", "Number of clusters."),
        Entry(("latent", "embedding"), "int", "Widths,\nin two lines."),
    ]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ('x : {"a", "b"} or callable, default="a"', '{"a", "b"} or callable'),
        ("x : ndarray of n × d, or None", "ndarray of n × d, or None"),
        ("x : Tensor, optional", "Tensor"),
        ("x", ""),
    ],
)
def test_the_kind_of_an_entry_goes_without_its_default(head: str, kind: str) -> None:
    assert entries(head) == [Entry(("x",), kind, "")]


def test_paragraphs_of_an_entry_stay_together() -> None:
    (entry,) = entries("x : int\n    One.\n\n    Two:\n\n    - three")
    assert entry.text == "One.\n\nTwo:\n\n- three"
    assert entries("") == []


# -- inline markup ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":math:`H^v` is a code", "$H^v$ is a code"),
        (":math:`a +\n  b`", "$a + b$"),
        ("see :class:`~dwcl.methods.soft.SoftClusterer`.", "see `SoftClusterer`."),
        ("see :func:`dwcl.losses.infonce`.", "see `dwcl.losses.infonce`."),
        ("``minmax`` or\n``none``", "`minmax` or\n`none`"),
        ("``a\nb``", "`a b`"),
        ("the setting `dropout` and ``x[0]``", "the setting `dropout` and `x[0]`"),
        ("as said [1]_ and [Nie2014]_", "as said [1] and [Nie2014]"),
        (".. [1] F. Nie, 2014.", "[1] F. Nie, 2014."),
        ("*new* and **very** new", "*new* and **very** new"),
        ("i < j, but no <b>tag</b>", "i < j, but no &lt;b>tag&lt;/b>"),
        ("``:math:`` stays", "`:math:` stays"),
        ("", ""),
    ],
)
def test_inline_markup(text: str, expected: str) -> None:
    assert as_markdown(text) == expected


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (r"a \, b \; c \! d", r"$a \thinspace b \enspace c \negthinspace d$"),
        (r"\{x\}, \|x\|", r"$\lbrace x\rbrace , \Vert x\Vert$"),
        ("|x|, a<b>c, f * g", r"$\vert x\vert , a\lt b\gt c, f \ast g$"),
        (r"\operatorname{arg max}_k Q", r"$`\mathrm{arg max}_k Q`$"),
        (r"x_i + x_{ij} + \hat x_i", r"$x_i + x_{ij} + \hat x_i$"),
        (r"\hat{H}_{v}", r"$`\hat{H}_{v}`$"),  # }_{ may begin an emphasis
        (r"a\ b", r"$a\ b$"),
    ],
)
def test_formulas_have_nothing_that_markdown_takes_for_its_own(tex: str, expected: str) -> None:
    assert as_markdown(f":math:`{tex}`") == expected


# -- formulas on lines of their own ----------------------------------------------------------------


def test_a_formula_stands_between_dollars_in_one_line() -> None:
    text = r"""so

.. math::

    L = a
        + b

where"""
    assert as_markdown(text) == "so\n\n$$\nL = a + b\n$$\n\nwhere"
    assert as_markdown(".. math:: - a\n\nend") == "$$\n-a\n$$\n\nend"


def test_a_formula_whose_underscores_are_in_danger_is_fenced() -> None:
    formula = ".. math::\n\n    \\underbrace{a}_{b}"
    assert as_markdown(formula) == "```math\n\\underbrace{a}_{b}\n```"


def test_rows_of_a_formula_are_aligned_and_parts_stand_apart() -> None:
    rows = ".. math::\n\n    a &= b \\\\\n    c &= d"
    assert as_markdown(rows) == ("$$\n\\begin{aligned} a &= b \\cr c &= d \\end{aligned}\n$$")
    own = ".. math::\n\n    \\begin{cases} a \\\\ b \\end{cases}"
    assert as_markdown(own) == "$$\n\\begin{cases} a \\cr b \\end{cases}\n$$"
    assert as_markdown(".. math::\n\n    a\n\n    b") == "$$\na\n$$\n\n$$\nb\n$$"


def test_lists_stay_and_formulas_in_them_are_indented() -> None:
    text = """Heading:

- one, with ``code`` and
  a second line

  .. math::

      x

  and more
- two"""
    assert as_markdown(text) == (
        "Heading:\n\n- one, with `code` and\n  a second line\n\n  $$\n  x\n  $$\n\n"
        "  and more\n- two"
    )


def test_other_directives_are_not_passed_over() -> None:
    with pytest.raises(ValueError, match=r"not the directive '.. note::'"):
        as_markdown("One.\n\n.. note::\n\n    Two.")


# -- cells and programs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One line\nand a second.", "One line and a second."),
        ("One.\n\nTwo.", "One.<br>Two."),
        ("Either:\n\n- a\n  b\n- c", "Either:<br>• a b<br>• c"),
        ("a | b, ``c | d``", r"a \| b, `c \| d`"),
        (":math:`|x|`", r"$\vert x\vert$"),
        ("as\n\n.. math::\n\n    a\n    + b\n\nso", "as $a + b$ so"),
        ("", ""),
    ],
)
def test_cells_are_one_line(text: str, expected: str) -> None:
    assert as_cell(text) == expected


def test_a_session_becomes_a_program() -> None:
    session = """>>> import dwcl
>>> for i in range(2):
...     print(i)
0
1

Then:

>>> 1 + 1  # doctest: +SKIP
2"""
    program = as_program(session)
    assert program == (
        "import dwcl\nfor i in range(2):\n    print(i)\n# 0\n# 1\n# Then:\n1 + 1  # 2"
    )
    compile(program, "page", "exec")
