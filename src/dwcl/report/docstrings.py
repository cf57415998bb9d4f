"""Docstrings read as documents: numpydoc's sections, and their markup turned into Markdown."""

from __future__ import annotations

import doctest
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_DIRECTIVE = re.compile(r"^( *)\.\. (\w[\w-]*)::(.*)$")
_TARGET = re.compile(r"^\.\. (\[\w+\])", re.MULTILINE)
_INLINE = re.compile(
    r"""  :math:`(?P<math>[^`]+)`
        | :\w+:`(?P<role>[^`]+)`
        | ``(?P<literal>.+?)``
        | `(?P<name>[^`]+)`
        | (?P<note>\[\w+\])_
        | (?P<tag><)(?=[A-Za-z/!])
    """,
    re.VERBOSE | re.DOTALL,
)

# Markdown takes a backslash before punctuation for an escape, and gives brackets, bars and stars a
# meaning; the same signs by name are left alone. GitHub refuses `\operatorname`.
_NAMED = {
    r"\,": r"\thinspace ",
    r"\:": r"\thinspace ",
    r"\>": r"\thinspace ",
    r"\;": r"\enspace ",
    r"\!": r"\negthinspace ",
    r"\{": r"\lbrace ",
    r"\}": r"\rbrace ",
    r"\|": r"\Vert ",
    r"\\": r"\cr ",
    "|": r"\vert ",
    "<": r"\lt ",
    ">": r"\gt ",
    "*": r"\ast ",
}
_SIGN = re.compile(r"\\[^\w\s]|[|<>*]")
_OPERATOR = re.compile(r"\\operatorname\*?(?=\{)")
_EMPHASIS = re.compile(r"[^\w\s]_")
"""Where an underscore may begin an emphasis."""


@dataclass(frozen=True)
class Docstring:
    """A docstring in its parts.

    Attributes
    ----------
    title : str
        The first line, without its full stop.
    text : str
        What stands between it and the first section.
    sections : mapping of str to str
        What stands under each heading.
    """

    title: str
    text: str
    sections: Mapping[str, str]

    @classmethod
    def of(cls, owner: type) -> Docstring:
        """Read the docstring of a class, which need not have one."""
        first, *rest = _HEADING.split(inspect.cleandoc(owner.__doc__ or ""))
        title, _, text = first.partition("\n")
        sections = {n: t.strip("\n") for n, t in zip(rest[::2], rest[1::2], strict=True)}
        return cls(title.strip().removesuffix("."), text.strip(), sections)


@dataclass(frozen=True)
class Entry:
    """What a section says of one or more parameters or attributes."""

    names: tuple[str, ...]
    kind: str
    text: str


def entries(section: str) -> list[Entry]:
    """Read the entries of a section: unindented heads ``a, b : kind``, indented descriptions."""
    found = []
    for block in re.split(r"\n(?=\S)", section.strip("\n")):
        if not block:
            continue
        head, _, text = block.partition("\n")
        names, _, kind = head.partition(" : ")
        kind = re.sub(r",\s*(default=.*|optional)$", "", kind.strip())
        listed = tuple(name.strip() for name in names.split(","))
        found.append(Entry(listed, kind, textwrap.dedent(text).strip()))
    return found


def as_markdown(text: str) -> str:
    """Turn paragraphs, lists and formulas into Markdown."""
    pieces = []
    for indent, formula, words in _pieces(text):
        piece = _displayed(words) if formula else _paragraphs(words)
        if piece:
            pieces.append(textwrap.indent(piece, indent))
    return "\n\n".join(pieces)


def as_cell(text: str) -> str:
    """Turn a text into Markdown that fits into a cell of a table, all in one line."""
    inline = [
        " ".join(f":math:`{part}`" for part in _equations(words)) if formula else words.strip("\n")
        for _, formula, words in _pieces(text)
    ]
    whole = "\n".join(part for part in inline if part)  # a sentence goes on behind its formula
    lines = re.sub(r"\n\s*[-*] ", "\n\n• ", f"\n{whole}").strip()
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", lines))
    return "<br>".join(_paragraphs(part) for part in paragraphs).replace("|", r"\|")


def as_program(examples: str) -> str:
    """Turn an interactive session into a program, with what comes out as remarks."""
    lines: list[str] = []
    for part in doctest.DocTestParser().parse(examples):
        if isinstance(part, str):
            lines += [f"# {line.strip()}" for line in part.splitlines() if line.strip()]
            continue
        source = re.sub(r"\s*# doctest:.*", "", part.source).rstrip("\n").splitlines()
        shown = part.want.rstrip("\n").splitlines()
        if len(shown) == 1:
            source[-1] += f"  # {shown.pop()}"
        lines += [*source, *(f"# {line}".rstrip() for line in shown)]
    return "\n".join(lines)


def _pieces(text: str) -> Iterator[tuple[str, bool, str]]:
    """Yield text and formulas in turn: the indentation, whether it is a formula, the words."""
    words: list[str] = []
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        directive = _DIRECTIVE.match(line)
        if directive is None:
            words.append(line)
            continue
        indent, name, first = directive.groups()
        if name != "math":
            raise ValueError(f"Only formulas are understood, not the directive '{line.strip()}'.")
        body = []
        while lines and (not lines[0].strip() or lines[0].startswith(indent + " ")):
            body.append(lines.pop(0))
        yield "", False, "\n".join(words)
        yield indent, True, "\n".join([first.strip(), textwrap.dedent("\n".join(body))]).strip()
        words = []
    yield "", False, "\n".join(words)


def _paragraphs(text: str) -> str:
    """Turn text without formulas of their own lines into Markdown."""
    return _INLINE.sub(_marked, _TARGET.sub(r"\1", text)).strip("\n")


def _marked(match: re.Match[str]) -> str:
    """Turn one piece of inline markup into Markdown's."""
    text = " ".join((match[match.lastgroup or 0]).split())
    if match.lastgroup == "math":
        tex = _tidied(text)
        return f"$`{tex}`$" if _EMPHASIS.search(tex) else f"${tex}$"
    if match.lastgroup == "role":  # as :class:`~a.b.C`, which shows its last part alone
        return f"`{text.rpartition('.')[2] if text.startswith('~') else text}`"
    if match.lastgroup == "note":
        return text
    return "&lt;" if match.lastgroup == "tag" else f"`{text}`"


def _displayed(words: str) -> str:
    """Turn a formula into Markdown: between dollars, or fenced where those would not hold."""
    shown = []
    for tex in map(_tidied, _equations(words)):
        fences = ("```math", "```") if _EMPHASIS.search(tex) else ("$$", "$$")
        shown.append("\n".join([fences[0], tex, fences[1]]))
    return "\n\n".join(shown)


def _equations(words: str) -> list[str]:
    """Split a formula at its empty lines, and align the rows of each part."""
    parts = [part.strip() for part in re.split(r"\n\s*\n", words)]
    return [
        rf"\begin{{aligned}} {part} \end{{aligned}}"
        if r"\\" in part and r"\b" not in part
        else part
        for part in parts
    ]


def _tidied(tex: str) -> str:
    """Write a formula, in one line, without anything that Markdown would take for its own."""
    named = _SIGN.sub(lambda match: _NAMED.get(match[0], match[0]), " ".join(tex.split()))
    named = _OPERATOR.sub(r"\\mathrm", named)
    # A sign and a space in front would begin a list.
    return re.sub(r"^([-+]) ", r"\1", re.sub(r" {2,}", " ", named)).strip()
