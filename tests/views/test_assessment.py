from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch import Tensor

from dwcl.clustering.minibatch import cluster
from dwcl.data.synthetic import best_view, make_multiview
from dwcl.errors import SettingError
from dwcl.streams import RandomStreams
from dwcl.views import (
    Assessment,
    QualityMeasure,
    SilhouetteQuality,
    ViewChoice,
    assess,
    assessment,
    by_agreement,
    by_quality,
)

K = 4
WIDTHS = (20, 20, 20)


def run(
    features: list[Tensor],
    names: tuple[str, ...] = ("view1", "view2", "view3"),
    *,
    k: int = K,
    quality: QualityMeasure | None = None,
    choose: ViewChoice = by_quality,
    seed: int = 0,
    stage: str = "assessment-0",
) -> Assessment:
    return assess(
        features,
        names,
        k,
        quality=quality or SilhouetteQuality(1000),
        choose=choose,
        n_init=3,
        streams=RandomStreams(seed),
        stage=stage,
    )


def synthetic(quality: tuple[float, ...], seed: int, n: int = 160) -> tuple[list[Tensor], Any]:
    data = make_multiview(n, K, widths=WIDTHS, quality=quality, random_state=seed)
    return [torch.from_numpy(np.asarray(x, np.float32)) for x in data.arrays], data.labels


# -- the state of the views ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("quality", [(1.0, 0.5, 0.3), (0.3, 1.0, 0.5), (0.4, 0.2, 0.8)])
def test_the_best_view_of_synthetic_data_is_found(quality: tuple[float, ...], seed: int) -> None:
    features, truth = synthetic(quality, seed)
    found = run(features, seed=seed)
    assert found.best_name == best_view(K, widths=WIDTHS, quality=quality)
    assert np.argsort(found.quality).tolist() == np.argsort(quality).tolist()
    assert found.labels.shape == (3, 160)
    assert adjusted_rand_score(truth, found.labels[found.best]) > 0.95


def test_the_figures_are_those_of_the_clusters() -> None:
    features, _ = synthetic((0.8, 0.5, 0.4), 0)
    found = run(features)
    for v, w in itertools.product(range(3), repeat=2):
        expected = normalized_mutual_info_score(found.labels[v], found.labels[w])
        assert found.agreement[v][w] == pytest.approx(expected, abs=1e-9)
        assert found.agreement[v][w] == found.agreement[w][v]
    assert [found.agreement[v][v] for v in range(3)] == [1.0] * 3
    measure = SilhouetteQuality(1000)
    for v, x in enumerate(features):
        assert found.quality[v] == measure(x, found.labels[v], torch.Generator())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[1:])
def test_permuting_the_views_permutes_the_results(order: tuple[int, ...]) -> None:
    features, _ = synthetic((0.5, 0.45, 0.3), 3)
    names = ("pixels", "edges", "moments")
    budget = SilhouetteQuality(100)  # so that the judgement draws a sample too
    straight = run(features, names, quality=budget)
    permuted = run([features[v] for v in order], tuple(names[v] for v in order), quality=budget)
    assert permuted.names == tuple(names[v] for v in order)
    assert torch.equal(permuted.labels, straight.labels[list(order)])
    assert permuted.quality == tuple(straight.quality[v] for v in order)
    assert permuted.agreement == tuple(
        tuple(straight.agreement[v][w] for w in order) for v in order
    )
    assert permuted.best_name == straight.best_name


def test_seed_stage_and_name_decide_the_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    judging: list[list[int]] = []
    clustering: list[list[int]] = []

    def spy(features: Tensor, labels: Tensor, generator: torch.Generator, /) -> float:
        judging[-1].append(generator.initial_seed())
        return 0.5

    def cluster_spy(x: Tensor, k: int, *, generator: torch.Generator, **others: Any) -> Any:
        clustering[-1].append(generator.initial_seed())
        return cluster(x, k, generator=generator, **others)

    monkeypatch.setattr(assessment, "cluster", cluster_spy)
    features, _ = synthetic((0.5, 0.5, 0.5), 0, n=30)
    for seed, stage in [(0, "a"), (0, "a"), (1, "a"), (0, "b")]:
        judging.append([])
        clustering.append([])
        run(features, quality=spy, seed=seed, stage=stage)
    assert judging[0] == judging[1]
    assert clustering[0] == clustering[1]
    seeds = [seed for runs in (judging[1:], clustering[1:]) for run_ in runs for seed in run_]
    assert len(set(seeds)) == len(seeds) == 18  # one per view, run and purpose


def test_the_record_is_plain_values() -> None:
    features, _ = synthetic((0.8, 0.5, 0.4), 0, n=40)
    found = run(features)
    record = found.as_record()
    assert record == {
        "quality": list(found.quality),
        "cmi": [list(row) for row in found.agreement],
        "best_view": "view1",
    }
    assert all(type(value) is float for value in record["quality"])
    assert all(type(value) is float for row in record["cmi"] for value in row)


def test_a_single_view_is_the_best() -> None:
    features, _ = synthetic((0.8, 0.5, 0.4), 0, n=40)
    found = run(features[:1], ("alone",), choose=by_agreement)
    assert (found.best_name, found.agreement) == ("alone", ((1.0,),))


def test_names_must_be_as_many_as_views() -> None:
    features, _ = synthetic((0.8, 0.5, 0.4), 0, n=40)
    with pytest.raises(ValueError, match="zip"):
        run(features, ("a", "b"))


# -- which view is the best ------------------------------------------------------------------------

QUALITY = (0.9, 0.5, 0.4, 0.5)
AGREEMENT = (
    (1.0, 0.1, 0.1, 0.1),
    (0.1, 1.0, 0.6, 0.5),
    (0.1, 0.6, 1.0, 0.7),
    (0.1, 0.5, 0.7, 1.0),
)


def test_by_quality_and_by_agreement_by_hand() -> None:
    assert by_quality(QUALITY, AGREEMENT) == 0
    assert by_agreement(QUALITY, AGREEMENT) == 2  # sums 1.3, 2.2, 2.4, 2.3


def test_of_equal_qualities_the_first_wins() -> None:
    assert by_quality((0.1, 0.7, 0.7), AGREEMENT) == 1


def test_two_views_agree_equally_so_quality_decides() -> None:
    table = ((1.0, 0.3), (0.3, 1.0))
    assert by_agreement((0.2, 0.6), table) == 1
    assert by_agreement((0.6, 0.2), table) == 0


def test_sums_of_agreements_do_not_depend_on_the_order_of_views() -> None:
    # Added from left to right, 0.1 + 0.2 + 0.3 is more than 0.3 + 0.2 + 0.1.
    table = ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1))
    assert by_agreement((0.5, 0.6), table) == 1
    assert by_agreement((0.6, 0.5), table[::-1]) == 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_compact_view_of_something_else_is_chosen_by_quality_alone(seed: int) -> None:
    features, truth = synthetic((0.7, 0.6, 0.6), seed)
    rng = np.random.default_rng(seed)
    other = 20 * np.eye(K)[rng.integers(K, size=len(truth))] + rng.standard_normal((len(truth), K))
    features[1] = torch.from_numpy(other.astype(np.float32))
    assert run(features, choose=by_quality).best == 1
    assert run(features, choose=by_agreement).best != 1


def test_a_function_of_the_user_may_choose_and_judge() -> None:
    features, _ = synthetic((0.8, 0.5, 0.4), 0, n=40)
    seen: list[Any] = []

    def choose(quality: tuple[float, ...], agreement: tuple[tuple[float, ...], ...]) -> Any:
        seen.append((quality, agreement))
        return np.int64(2)

    def by_width(x: Tensor, labels: Tensor, generator: torch.Generator, /) -> Any:
        return torch.tensor(float(x.shape[1]) + labels.shape[0])

    found = run(features, choose=choose, quality=by_width)
    assert seen == [(found.quality, found.agreement)]
    assert found.quality == (60.0, 60.0, 60.0)
    assert found.best == 2
    assert type(found.best) is int


@pytest.mark.parametrize("chosen", [-1, 3, 1.0, 0.5, "view1", None, True, math.nan, (0,)])
def test_nonsense_from_a_choice_is_refused(chosen: Any) -> None:
    features, _ = synthetic((0.8, 0.5, 0.4), 0, n=40)
    match = (
        r"chooses the best view returned .*; a position, a whole number from 0 to 2, is expected"
    )
    with pytest.raises(SettingError, match=match):
        run(features, choose=lambda quality, agreement: chosen)


@pytest.mark.parametrize("judged", [math.nan, math.inf, None, "good"])
def test_nonsense_from_a_measure_is_refused(judged: Any) -> None:
    features, _ = synthetic((0.8, 0.5, 0.4), 0, n=40)
    match = r"The quality of view 'view1' is .*; the function that gives it must return a finite"
    with pytest.raises(SettingError, match=match):
        run(features, quality=lambda features, labels, generator, /: judged)
