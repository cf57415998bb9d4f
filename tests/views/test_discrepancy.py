"""The agreement of two clusterings, and how far two views' features differ."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor

from dwcl.errors import DataError
from dwcl.views import discrepancy, jsd_weight, mmd_weight
from dwcl.views.discrepancy import between_views, cmi, jsd, mmd

labellings = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)
)


def test_a_case_computed_by_hand() -> None:
    """I = 0.318257, entropies ln 2 and 0.636514."""
    found = cmi(torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 0, 1, 1, 1, 1]))
    assert found == pytest.approx(2 * 0.318257 / (math.log(2) + 0.636514), abs=1e-6)
    assert found == pytest.approx(0.478704, abs=1e-6)
    assert math.expm1(found) == pytest.approx(0.613981, abs=2e-6)


def test_the_ends_of_the_range() -> None:
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 2])
    assert cmi(labels, torch.tensor([2, 0, 1])[labels]) == 1.0
    assert cmi(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])) == pytest.approx(
        0.0, abs=1e-12
    )


def test_clusterings_of_one_cluster() -> None:
    constant, two = torch.zeros(4, dtype=torch.int64), torch.tensor([0, 1, 1, 0])
    assert cmi(constant, constant) == 1.0
    assert cmi(constant, constant + 3) == 1.0
    assert cmi(constant, two) == 0.0


@given(labellings)
def test_it_is_the_normalised_mutual_information(case: tuple[list[int], list[int]]) -> None:
    one, other = map(torch.tensor, case)
    found = cmi(one, other)
    assert found == pytest.approx(normalized_mutual_info_score(*case), abs=1e-9)
    assert 0.0 <= found <= 1.0
    assert found == cmi(other, one)


# -- by features -----------------------------------------------------------------------------------


def features(n: int, d: int, seed: int, scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(scale * torch.randn(2, n, d, generator=generator, dtype=torch.float64))


def slow_jsd(a: Tensor, b: Tensor) -> float:
    total = 0.0
    for p, q in zip(a.softmax(1).tolist(), b.softmax(1).tolist(), strict=True):
        for one in (p, q):
            total += sum(
                x * math.log(x / ((y + z) / 2)) / 2 for x, y, z in zip(one, p, q, strict=True)
            )
    return total / len(a)


def slow_mmd(a: Tensor, b: Tensor) -> float:
    rows = [*a.tolist(), *b.tolist()]
    n = len(rows)

    def far(i: int, j: int) -> float:
        return sum((x - y) ** 2 for x, y in zip(rows[i], rows[j], strict=True))

    sigma = sum(far(i, j) for i in range(n) for j in range(n)) / (n * n - n) / 16
    total = 0.0
    for i in range(n):
        for j in range(n):
            kernel = sum(math.exp(-far(i, j) / (sigma * 4**p)) for p in range(4))
            total += kernel if (i < n // 2) == (j < n // 2) else -kernel
    return total / (n // 2) ** 2


def test_jsd_by_hand() -> None:
    a, b = torch.tensor([[0.0, 0.0]]), torch.tensor([[math.log(3), 0.0]])
    # p = (1/2, 1/2), q = (3/4, 1/4), m = (5/8, 3/8)
    p_part = (math.log(4 / 5) + math.log(4 / 3)) / 2
    q_part = 0.75 * math.log(6 / 5) + 0.25 * math.log(2 / 3)
    assert jsd(a, b) == pytest.approx((p_part + q_part) / 2, rel=1e-6)
    assert jsd(a, b) == pytest.approx(0.033822, abs=1e-6)
    assert jsd_weight(jsd(a, b)) == pytest.approx(1.627881, abs=1e-6)


def test_mmd_by_hand() -> None:
    p, q = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [2.0]])
    widths = [1 / 12, 1 / 3, 4 / 3, 16 / 3]
    one, four = (sum(math.exp(-d / w) for w in widths) for d in (1, 4))
    # k(P, P) and k(Q, Q): two of distance 0, two of 1; k(P, Q): distances 1, 4, 0, 1
    by_hand = 2 * (2 * 4 + 2 * one) / 4 - 2 * (2 * one + four + 4) / 4
    assert mmd(p, q) == pytest.approx(by_hand, rel=1e-12)
    assert mmd(p, q) == pytest.approx(1.738920, abs=1e-6)
    assert mmd_weight(mmd(p, q)) == pytest.approx(0.175710, abs=1e-6)
    assert mmd(p, p) == 0.0


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("n", "d"), [(1, 3), (7, 1), (11, 4)])
def test_measures_of_features_by_plain_loops(seed: int, n: int, d: int, monkeypatch: Any) -> None:
    a, b = features(n, d, seed)
    monkeypatch.setattr(discrepancy, "BLOCK_ROWS", 4)
    assert jsd(a, b) == pytest.approx(slow_jsd(a, b), abs=1e-12)
    assert mmd(a, b) == pytest.approx(slow_mmd(a, b), rel=1e-9)
    assert jsd(a, b) == pytest.approx(jsd(b, a), abs=1e-15)
    assert mmd(a, b) == pytest.approx(mmd(b, a), rel=1e-9)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    assert jsd(a[order], b[order]) == pytest.approx(jsd(a, b), abs=1e-12)
    assert mmd(a[order], b) == pytest.approx(mmd(a, b), rel=1e-9)


def test_the_ends_of_the_ranges() -> None:
    a, _ = features(20, 3, 0)
    assert jsd(a, a) == pytest.approx(0.0, abs=1e-15)
    assert mmd(a, a) == pytest.approx(0.0, abs=1e-12)
    assert jsd_weight(0.0) == pytest.approx(math.e - 1)
    assert jsd_weight(math.log(2)) == pytest.approx(0.3591, abs=1e-4)
    assert mmd_weight(0.0) == 1.0
    assert jsd(torch.eye(2), torch.ones(2, 2)) > 0
    same = torch.full((5, 2), 0.3)
    assert mmd(same, same) == 0.0
    assert jsd(same, same) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e15])
def test_certain_features_stay_finite(scale: float) -> None:
    a, b = torch.eye(3) * scale, torch.eye(3).flip(0) * scale
    # two of the three rows say the opposite with certainty
    assert jsd(a, b) == pytest.approx(2 / 3 * math.log(2))
    assert mmd(*features(9, 2, 0, scale)) == pytest.approx(mmd(*features(9, 2, 0)), rel=1e-6)
    far = mmd(a, a + 5 * scale)
    assert math.isfinite(far)
    assert far > 0


def test_mmd_looks_at_the_first_rows_alone() -> None:
    a, b = features(30, 2, 1)
    assert mmd(a, b, max_rows=12) == mmd(a[:12], b[:12])
    assert discrepancy.MMD_ROWS == 2000


class Counted:
    """A table that says how many rows are asked for at once, as one on the disk would have it."""

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.shape, self.most = rows, rows.shape, 0

    def __getitem__(self, asked: Any) -> Tensor:
        found = self.rows[asked]
        self.most = max(self.most, len(found))
        return found

    def __len__(self) -> int:
        return len(self.rows)


def test_features_that_do_not_lie_in_memory_are_read_by_blocks(monkeypatch: Any) -> None:
    a, b = features(30, 3, 0)
    monkeypatch.setattr(discrepancy, "BLOCK_ROWS", 8)
    one, other = Counted(a), Counted(b)
    assert jsd(one, other) == jsd(a, b)
    assert (one.most, other.most) == (8, 8)
    one, other = Counted(a), Counted(b)
    assert mmd(one, other, max_rows=12) == mmd(a, b, max_rows=12)
    assert (one.most, other.most) == (12, 12)
    with pytest.raises(DataError, match=r"shapes \(30, 3\) and \(29, 3\)"):
        jsd(one, Counted(b[:29]))


def test_features_of_other_shapes() -> None:
    for measure in (jsd, mmd):
        with pytest.raises(DataError, match=r"shapes \(3, 2\) and \(3, 4\)"):
            measure(torch.ones(3, 2), torch.ones(3, 4))


def test_a_table_of_all_pairs_asks_once_for_each() -> None:
    asked = []

    def measure(a: int, b: int) -> float:
        asked.append({a, b})
        return float(a * b)

    table = between_views([2, 3, 5], measure, 7.0)
    assert table == ((7.0, 6.0, 10.0), (6.0, 7.0, 15.0), (10.0, 15.0, 7.0))
    assert len(asked) == 3
