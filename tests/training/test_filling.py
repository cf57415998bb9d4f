from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dwcl.training import InMemory, Source, Streamed
from dwcl.training.filling import filled_in, mean_rows

N, WIDTHS = 40, (3, 5)


def make_views(seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(N, d, generator=generator) for d in WIDTHS]


def source_of(kind: str, views: list[Tensor]) -> Source:
    if kind == "memory":
        return InMemory(views)

    def fill_of(view: Tensor):  # type: ignore[no-untyped-def]
        def fill(start: int, block: Tensor) -> None:
            block.copy_(view[start : start + len(block)])

        return fill

    return Streamed([fill_of(view) for view in views], N, WIDTHS, window_bytes=0)


@pytest.mark.parametrize("kind", ["memory", "streamed"])
def test_means_are_those_of_the_named_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dwcl.training.filling.ROWS", 7)
    views = make_views()
    donors = [torch.tensor([[0, 39, 7, -1], [6, 6, 5, -1], [20, -1, -1, -1]]), torch.empty(0, 4)]
    donors[1] = donors[1].long()
    first, second = mean_rows(source_of(kind, views), donors)
    x = views[0]
    expected = torch.stack([(x[0] + x[39] + x[7]) / 3, (2 * x[6] + x[5]) / 3, x[20]])
    torch.testing.assert_close(first, expected)
    assert second.shape == (0, 5)


def test_values_of_samples_that_nobody_names_have_no_influence() -> None:
    views = make_views()
    views[0][3] = torch.nan
    first, _ = mean_rows(
        InMemory(views), [torch.tensor([[1, 2], [4, -1]]), torch.zeros(0, 1).long()]
    )
    assert first.isfinite().all()


@pytest.mark.parametrize("kind", ["memory", "streamed"])
def test_samples_come_with_what_they_lack_filled_in(kind: str) -> None:
    views = make_views()
    observed = torch.ones(N, 2, dtype=torch.bool)
    observed[[3, 17, 30], 0] = False
    observed[[8, 25], 1] = False
    gappy = [x.masked_fill(~observed[:, [v]], torch.nan) for v, x in enumerate(views)]
    donors = [torch.tensor([[0, 1], [2, -1], [4, 5]]), torch.tensor([[9, 9], [10, 11]])]
    expected = [x.clone() for x in gappy]
    expected[0][[3, 17, 30]] = torch.stack([(gappy[0][0] + gappy[0][1]) / 2, gappy[0][2],
                                            (gappy[0][4] + gappy[0][5]) / 2])  # fmt: skip
    expected[1][[8, 25]] = torch.stack([gappy[1][9], (gappy[1][10] + gappy[1][11]) / 2])
    source = filled_in(source_of(kind, gappy), observed, donors)
    lacking = [3, 8, 17, 25, 30]
    assert source.n_samples == 5
    assert source.index is not None
    assert source.index.tolist() == lacking
    blocks = [torch.cat(parts) for parts in zip(*source.blocks(2), strict=True)]
    for block, x in zip(blocks, expected, strict=True):
        torch.testing.assert_close(block, x[lacking])
    seen: list[int] = []
    for batch in source.epoch(2, torch.Generator().manual_seed(0)):
        seen += batch.index.tolist()
        for x, all_rows in zip(batch.views, expected, strict=True):
            torch.testing.assert_close(x, all_rows[batch.index])
    assert sorted(seen) == lacking
    for x, before in zip(views, gappy, strict=True):  # nothing was written into the data
        assert torch.equal(x[before[:, 0].isfinite()], before[before[:, 0].isfinite()])
        assert bool(before.isnan().any())
