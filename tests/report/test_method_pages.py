"""The pages of the methods are what their docstrings give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from dwcl.clustering.tables import Table
from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.methods.registry import methods
from dwcl.methods.soft import SoftClusterer
from dwcl.report import method_pages
from dwcl.report.method_pages import (
    cited,
    clusters_from,
    list_page,
    main,
    method_page,
    missing_views,
    pages,
)

FOLDER = Path(__file__).parents[2] / "docs" / "methods"
REMEDY = "run `python -m dwcl.report.method_pages docs/methods`"


class Example(DeepMultiViewClusterer):
    """An example of a method.

    The idea.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    latent, embedding : int, default=4, 2
        Widths.
    one, other : float, default=1e-3
        The same.
    kind : {"a", "b"} or None, default="a"
        Of a | b.

    Attributes
    ----------
    labels_ : ndarray of n
        The clusters.

    Notes
    -----
    - It is none.

    References
    ----------
    Ada Lovelace, Charles Babbage: Notes. 1943.

    Examples
    --------
    >>> 1 + 1
    2
    """

    method_name = "example"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        latent: int = 4,
        embedding: int = 2,
        one: float = 1e-3,
        other: float = 1e-3,
        kind: str | None = "a",
    ) -> None: ...


class Soft(SoftClusterer):
    """Soft."""

    method_name = "soft"
    accepts_missing = True

    def _assign(self, networks: nn.Module, xs: list[Tensor]) -> Tensor:
        raise NotImplementedError


class Found(DeepMultiViewClusterer):
    """k-means of another stream is k-means all the same."""

    method_name = "found"

    def _find_centres(self, run: Run, features: Table) -> tuple[Tensor, float]:
        raise NotImplementedError


class Turned(Found):
    """Turned."""

    method_name = "turned"

    def _distances_to(self, centres: Tensor, features: Tensor) -> Tensor:
        raise NotImplementedError


PAGE = """\
# Example: An example of a method

- In Python: `from MODULE import Example`
- On the command line: `dwcl fit DATA --clusters K --method example`
- Clusters: k-means on its features
- Samples that lack views: refused
- [All methods](README.md)

The idea.

## Notes

- It is none.

## Parameters

| parameter | type | default | what it is |
| --- | --- | --- | --- |
| `n_clusters` | int | `8` | Number of clusters. |
| `latent`, `embedding` | int | `4`, `2` | Widths. |
| `one`, `other` | float | `0.001` | The same. |
| `kind` | {"a", "b"} or None | `"a"` | Of a \\| b. |

## Attributes

| attribute | type | what it is |
| --- | --- | --- |
| `labels_` | ndarray of n | The clusters. |

## References

Ada Lovelace, Charles Babbage: Notes. 1943.

## Examples

```python
1 + 1  # 2
```
"""


def test_the_committed_pages_are_those_of_the_docstrings() -> None:
    committed = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}
    made = pages()
    assert set(committed) == set(made), REMEDY
    stale = [name for name, text in made.items() if committed[name] != text]
    assert stale == [], REMEDY


@pytest.mark.parametrize("name", methods())
def test_no_markup_of_docstrings_is_left(name: str) -> None:
    page = re.sub(
        r"^```math.*?^```|^```python.*?^```",
        "",
        pages()[f"{name}.md"],
        flags=re.MULTILINE | re.DOTALL,
    )
    assert "``" not in page
    assert not re.search(r":\w+:`|^ *\.\. |\]_|>>> |\n-{3,}\n", page)
    for block in re.findall(r"^ *\$\$\n(.*?)\n *\$\$$", page, flags=re.MULTILINE | re.DOTALL):
        assert not re.search(r"\\[^\w\s]|[*<>|]|\n", block), block


@pytest.mark.parametrize("name", methods())
def test_every_parameter_has_a_row(name: str) -> None:
    page = pages()[f"{name}.md"]
    table = page.partition("## Parameters")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)))
    assert sorted(named) == sorted(methods()[name]().get_params())


def test_a_page_by_hand() -> None:
    page = method_page(Example)
    first, _, rest = page.partition("\n\n")
    assert first == method_pages.MADE
    assert rest == PAGE.replace("MODULE", Example.__module__)


def test_what_a_docstring_lacks_its_page_lacks() -> None:
    page = method_page(Soft)
    assert "##" not in page
    assert page.endswith("- [All methods](README.md)\n")


@pytest.mark.parametrize(
    ("method", "clusters", "missing"),
    [
        (Example, "k-means on its features", "refused"),
        (Soft, "the greatest share of a soft assignment", "accepted"),
        (Found, "k-means on its features", "refused"),
        (Turned, "the nearest centre, by distances of its own", "refused"),
    ],
)
def test_how_labels_come_out_follows_from_the_class(
    method: Any, clusters: str, missing: str
) -> None:
    assert clusters_from(method) == clusters
    assert missing_views(method) == missing


def test_the_list_has_every_method_and_links_to_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = list_page()
    assert re.findall(r"^\| \[`([\w-]+)`\]\(\1\.md\) ", listed, flags=re.MULTILINE) == list(
        methods()
    )
    monkeypatch.setattr(method_pages, "methods", lambda: {"example": Example})
    assert (
        "| [`example`](example.md) | An example of a method | Lovelace and Babbage, 1943 "
        "| k-means on its features | refused |\n"
    ) in list_page()


@pytest.mark.parametrize(
    ("references", "short"),
    [
        ("A. Who, B. Which, C. What: On it. ICCV 2023, pp. 1675–1761.", "Who et al., 2023"),
        ("Ada Who and Ben Which: On it. 2021.", "Who and Which, 2021"),
        ("Ada Who, and Ben Which: On it. 2021.", "Who and Which, 2021"),
        ("Ada Who: On it. arXiv 2411.17354, 2024.", "Who, 2024"),
        (".. [1] Ada Who: On it. DOI 10.1109/X.2019.33, 2020.", "Who, 2020"),
        ("Ada\nWho: On it. 2020.\n\nBen Which: Before it. 2010.", "Who, 2020"),
        ("Ada Who: On it.", "Who"),
        ("", "–"),
    ],
)
def test_citations_are_shortened(references: str, short: str) -> None:
    assert cited(references) == short


def test_pages_are_written_into_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "a" / "b")]) == 0
    written = {path.name: path.read_text("utf-8") for path in (tmp_path / "a" / "b").iterdir()}
    assert written == pages()
    assert main([]) == 2
    assert "method_pages FOLDER" in capsys.readouterr().err
