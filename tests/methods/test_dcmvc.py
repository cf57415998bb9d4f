"""DCMVC: what it learns with which labels and neighbours, and what it reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from dwcl import Checkpoints, MultiView, load_model, make_multiview, save_model
from dwcl.clustering.cosine import cosine_distances, cosine_kmeans
from dwcl.errors import SettingError
from dwcl.experiments.recipes import recipes
from dwcl.losses import centre_contrast, neighbour_contrast
from dwcl.methods import dcmvc
from dwcl.methods.dcmvc import DCMVC, FusedNetworks
from dwcl.nn import set_precision
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch
from dwcl.training.callbacks import Callback, Record
from dwcl.training.loop import Trainer

SEEDS = (0, 1, 2)
GRAPHS = pytest.mark.parametrize("graph", ["full", "batch"])


@pytest.fixture
def short() -> dict[str, Any]:
    return {
        "encoder": (16,),
        "latent": 8,
        "pretrain_epochs": 3,
        "epochs": 3,
        "batch_size": 25,
        "learning_rate": 3e-3,
        "n_init": 2,
        "threads": 1,
        "precision": "fp32",
    }


@pytest.fixture
def thorough(short: dict[str, Any]) -> dict[str, Any]:
    better = {"encoder": (32, 32), "latent": 16, "batch_size": 60, "n_init": 3}
    return short | better | {"pretrain_epochs": 20, "epochs": 30, "n_neighbours": 10}


def easy(seed: int, n: int = 60, k: int = 3, views: int = 2) -> MultiView:
    quality, noise = (1.0, 0.5, 0.3)[:views], (0.05, 0.2, 0.3)[:views]
    widths = (10, 12, 8)[:views]
    return make_multiview(n, k, widths=widths, quality=quality, noise=noise, random_state=seed)


def hard(seed: int, n: int = 120) -> MultiView:
    """Clusters that a random map of the inputs does not show."""
    shape = {"widths": (20, 20, 20), "quality": 0.5, "noise": 0.5, "nonlinear": 1.0}
    return make_multiview(n, 3, **shape, random_state=seed)


def records(model: DCMVC, phase: str) -> list[Record]:
    return [r for r in model.history_ if r.get("phase") == phase]


def networks_for(widths: tuple[int, ...], seed: int = 0) -> FusedNetworks:
    generators = [RandomStreams(seed).torch("networks", str(v)) for v in range(len(widths))]
    return FusedNetworks(widths, encoder=(6,), latent=4, decoder=(6,), generators=generators)


# -- the loss --------------------------------------------------------------------------------------


@GRAPHS
@pytest.mark.parametrize("n_views", [1, 2, 3])
@torch.no_grad()
def test_the_loss_is_the_weighted_sum_of_its_parts(graph: Any, n_views: int) -> None:
    widths = (4, 3, 5)[:n_views]
    networks = networks_for(widths).double()
    networks.fusion.logits.copy_(torch.arange(n_views))
    rng = torch.Generator().manual_seed(0)
    everything = [torch.rand(12, d, generator=rng, dtype=torch.float64) for d in widths]
    labels = torch.randint(3, (12,), generator=rng)
    index = torch.tensor([7, 2, 11, 0, 5, 9])
    neighbours = [torch.randint(12, (12, 2), generator=rng) for _ in widths]
    if graph == "full":
        near = torch.zeros(n_views, 6, 6, dtype=torch.bool)
        for v, i, j in np.ndindex(n_views, 6, 6):
            one, other = int(index[i]), int(index[j])
            joined = other in neighbours[v][one].tolist() or one in neighbours[v][other].tolist()
            near[v, i, j] = joined and i != j
    else:
        near = torch.stack([slow_graph(x[index], 2) for x in everything])
    model = DCMVC(
        4, graph=graph, n_neighbours=3, centre_weight=0.3, neighbour_weight=0.2,
        centre_temperature=0.7, temperature=0.6,
    )  # fmt: skip
    batch = Batch([x[index] for x in everything], index)
    found = model.contrast(networks, neighbours if graph == "full" else None, batch, labels=labels)
    hs = [ae.encoder(x) for ae, x in zip(networks.each(), batch.views, strict=True)]
    weights = torch.arange(n_views).double().softmax(0)
    common = sum(w * h for w, h in zip(weights, hs, strict=True))
    total, y = 0.0, labels[index]
    for v, (ae, h) in enumerate(zip(networks.each(), hs, strict=True)):
        errors = (ae.decoder(h) - batch.views[v]).square()
        total += float(errors.sum()) / errors.numel()
        centres, present = centre_contrast(common, h[None], y, 4, 0.7)
        by_centre = float(centres[0][present].mean())
        rows = neighbour_contrast(common, h[None], near[v : v + 1], y, 0.6, 0.36)[0]
        assert float(found.parts["centres"][v]) == pytest.approx(by_centre)
        assert float(found.parts["neighbours"][v]) == pytest.approx(float(rows.mean()))
        total += 0.3 * by_centre + 0.2 * float(rows.mean())
    assert float(found.total) == pytest.approx(total)


def slow_graph(x: Tensor, m: int) -> Tensor:
    b = len(x)
    graph = torch.zeros(b, b, dtype=torch.bool)
    for i in range(b):
        others = sorted((float((x[i] - x[j]).square().sum()), j) for j in range(b) if j != i)
        for _, j in others[:m]:
            graph[i, j] = graph[j, i] = True
    return graph


@pytest.mark.parametrize("n_neighbours", [1, 2, 4, 9])
@pytest.mark.parametrize("b", [1, 3, 8])
def test_the_graph_of_a_batch(n_neighbours: int, b: int) -> None:
    x = torch.randn(b, 3, generator=torch.Generator().manual_seed(b))
    model = DCMVC(2, graph="batch", n_neighbours=n_neighbours)
    found = model._near(None, Batch([x, 2 * x], torch.arange(b)))
    assert torch.equal(found[0], slow_graph(x, min(n_neighbours, b) - 1))
    assert torch.equal(found[1], found[0])


def test_points_on_a_line_and_copies() -> None:
    line = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
    model = DCMVC(2, graph="batch", n_neighbours=2)
    (found,) = model._near(None, Batch([line], torch.arange(4)))
    assert found.nonzero().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2]]
    (copies,) = model._near(None, Batch([torch.ones(3, 2)], torch.arange(3)))
    assert not copies.diagonal().any()
    assert copies.any(dim=1).all()


def test_gradients_reach_encoders_and_weights() -> None:
    networks = networks_for((3, 2)).double()
    rng = torch.Generator().manual_seed(0)
    xs = [torch.rand(6, d, generator=rng, dtype=torch.float64) for d in (3, 2)]
    labels = torch.tensor([0, 1, 0, 1, 2, 0])
    model = DCMVC(3, graph="batch", n_neighbours=2, centre_weight=1.0, neighbour_weight=1.0)

    def total() -> Tensor:
        return model.contrast(networks, None, Batch(xs, torch.arange(6)), labels=labels).total

    total().backward()
    for name, parameter in networks.named_parameters():
        assert parameter.grad is not None
        place = tuple(0 for _ in parameter.shape)
        slope = 0.0
        for sign in (1, -1):
            with torch.no_grad():
                parameter[place] += sign * 1e-6
                slope += sign * float(total()) / 2e-6
                parameter[place] -= sign * 1e-6
        assert float(parameter.grad[place]) == pytest.approx(slope, rel=1e-5, abs=1e-8), name
    assert float(networks.fusion.logits.grad.abs().min()) > 1e-6


# -- networks and schedule -------------------------------------------------------------------------


def test_the_official_networks_have_the_known_number_of_parameters() -> None:
    with torch.device("meta"):
        networks = DCMVC(7)._build((1433, 2708), [torch.Generator() for _ in range(2)])
    count = sum(p.numel() for p in networks.parameters())
    assert count == 1001 * (1433 + 2708) + 2 * 3_530_256 + 2


@GRAPHS
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_of_learning_has_a_path_on_another_device(graph: Any, precision: Any) -> None:
    """Which also tells that no step waits for numbers of a device."""
    with torch.device("meta"):
        model = DCMVC(3, encoder=(6,), latent=5, graph=graph)
        networks = model._build((4, 3), [torch.Generator() for _ in range(2)])
        batch = Batch([torch.empty(7, d) for d in (4, 3)], torch.empty(7, dtype=torch.int64))
        set_precision(networks, precision)
        near = torch.empty(20, 4, dtype=torch.int32)
        labels = torch.empty(20, dtype=torch.int64)
        neighbours = [near, near] if graph == "full" else None
        model.contrast(networks, neighbours, batch, labels=labels).total.backward()
    assert all(p.grad is not None and p.grad.is_meta for p in networks.parameters())


@GRAPHS
def test_schedule_and_history(
    short: dict[str, Any], graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimisers, searches, labels_of_epoch = set(), [0], []
    step, search = Trainer._step, dcmvc.neighbours_in_table

    def watched(self: Trainer, *args: Any, **how: Any) -> None:
        optimisers.add(id(self._optimisers["main"]))
        step(self, *args, **how)

    def counted(*args: Any, **how: Any) -> Tensor:
        searches[0] += 1
        return search(*args, **how)

    original = DCMVC._pseudo_labels

    def labelled(self: DCMVC, run: Any, epoch: int) -> dict[str, Any]:
        if epoch == 1:
            assert run.networks.fusion.logits.tolist() == [0.5, 0.5]
        found = original(self, run, epoch)
        labels_of_epoch.append(found["labels"])
        return found

    monkeypatch.setattr(Trainer, "_step", watched)
    monkeypatch.setattr(dcmvc, "neighbours_in_table", counted)
    monkeypatch.setattr(DCMVC, "_pseudo_labels", labelled)
    model = DCMVC(3, **short, graph=graph, random_state=0).fit(easy(0))
    assert [r["phase"] for r in model.history_] == ["pretrain"] * 3 + ["contrast"] * 3
    assert len(optimisers) == 1
    assert searches == [2 if graph == "full" else 0]
    assert len(labels_of_epoch) == 3
    assert all(len(labels) == 60 and labels.dtype == torch.int64 for labels in labels_of_epoch)
    for record in records(model, "pretrain"):
        assert record["loss"] == pytest.approx(sum(record["reconstruction"]), rel=1e-5)
    for record in records(model, "contrast"):
        total = sum(record["reconstruction"]) + 0.01 * sum(record["centres"])
        assert record["loss"] == pytest.approx(total + 0.1 * sum(record["neighbours"]), rel=1e-4)
    assert model.view_weights_ != {"view1": 0.5, "view2": 0.5}
    assert sum(model.view_weights_.values()) == pytest.approx(1)


def test_no_neighbours_are_looked_for_in_vain(
    short: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(dcmvc, "neighbours_in_table")
    model = DCMVC(3, **(short | {"epochs": 0}), random_state=0).fit(easy(0))
    assert model.view_weights_ == {"view1": 0.5, "view2": 0.5}


def test_labels_are_k_means_of_the_common_codes_by_angles(short: dict[str, Any]) -> None:
    data = easy(0)
    model = DCMVC(3, **short, random_state=0).fit(data)
    z = torch.from_numpy(model.embedding_)
    generator = RandomStreams(0).torch("kmeans", "common")
    found = cosine_kmeans(z, 3, n_init=2, generator=generator)
    assert_array_equal(model.labels_, found.labels.numpy())
    assert_array_equal(model.cluster_centers_, found.centres.numpy())
    assert model.inertia_ == found.distance
    expected = cosine_distances(z, torch.from_numpy(model.cluster_centers_)).numpy()
    assert_array_equal(model.centre_distances(data), expected)
    with torch.no_grad():
        xs = [torch.from_numpy(x) for x in model.scaling_.transform(data)]
        hs = model.networks_.encode(xs)
    common = sum(model.view_weights_[name] * h for name, h in zip(data.names, hs, strict=True))
    np.testing.assert_allclose(model.embedding_, common.numpy(), atol=1e-5)
    assert list(model.get_feature_names_out()[:2]) == ["dcmvc_0", "dcmvc_1"]


# -- what it learns --------------------------------------------------------------------------------


@GRAPHS
@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clusters_that_its_untrained_networks_do_not(
    thorough: dict[str, Any], seed: int, graph: str
) -> None:
    data = hard(seed)
    settings = thorough | {"graph": graph, "n_neighbours": 10 if graph == "full" else 5}
    model = DCMVC(3, **settings, random_state=seed).fit(data)
    score = adjusted_rand_score(data.labels, model.labels_)
    assert score > 0.45
    untrained = thorough | {"pretrain_epochs": 0, "epochs": 0}
    raw = DCMVC(3, **untrained, random_state=seed).fit(data)
    assert score > adjusted_rand_score(data.labels, raw.labels_) + 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clear_clusters(thorough: dict[str, Any], seed: int) -> None:
    data = easy(seed, n=120, views=3)
    model = DCMVC(3, **(thorough | {"epochs": 10}), random_state=seed).fit(data)
    assert adjusted_rand_score(data.labels, model.labels_) > 0.9


def test_predict_agrees_with_fit_and_new_samples_go_to_their_kind_in_any_order(
    thorough: dict[str, Any],
) -> None:
    data = easy(0, n=180)
    known, new = data.take(range(120)), data.take(range(120, 180))
    model = DCMVC(3, **(thorough | {"epochs": 10}), random_state=0).fit(known)
    assert_array_equal(model.predict(known), model.labels_)
    assert_array_equal(model.transform(known), model.embedding_)
    found = model.predict(new)
    assert adjusted_rand_score(new.labels, found) > 0.9
    order = np.random.default_rng(0).permutation(60)
    assert_array_equal(model.predict(new.take(order)), found[order])


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(short: dict[str, Any]) -> None:
    one, two, other = (
        DCMVC(3, **short, random_state=seed).fit(easy(0)).embedding_.tobytes() for seed in (3, 3, 4)
    )
    assert one == two
    assert one != other


def test_labels_given_to_fit_change_nothing(short: dict[str, Any]) -> None:
    data = easy(0)
    one = DCMVC(3, **short, random_state=0).fit(data, data.labels)
    two = DCMVC(3, **short, random_state=0).fit(data.with_labels(None))
    assert_array_equal(one.embedding_, two.embedding_)


def test_bf16_comes_near_fp32(short: dict[str, Any]) -> None:
    rough, fine = (
        DCMVC(3, **(short | {"precision": p}), random_state=0).fit(easy(0))
        for p in ("bf16", "fp32")
    )
    assert rough.embedding_.tobytes() != fine.embedding_.tobytes()
    for one, two in zip(rough.history_, fine.history_, strict=True):
        assert one["loss"] == pytest.approx(two["loss"], rel=0.05, abs=0.01)


class BrokenError(Exception):
    """Stands for a crash."""


class BreakAt(Callback):
    """Breaks a run at its n-th record."""

    def __init__(self, number: int) -> None:
        self.left = number

    def on_record(self, record: Record) -> None:
        self.left -= 1
        if self.left == 0:
            raise BrokenError


def bytes_of(model: DCMVC, folder: Path) -> bytes:
    save_model(model, folder)
    content = [(folder / name).read_bytes() for name in ("model.json", "model.safetensors")]
    return b"".join(content) + model.embedding_.tobytes()


@pytest.mark.parametrize(
    ("record", "graph", "n_neighbours"),
    [*((r, "full", 5) for r in range(1, 7)), (5, "batch", 5), (5, "full", 1)],
)
def test_broken_at_any_record_it_ends_in_the_same_bytes(
    tmp_path: Path, short: dict[str, Any], record: int, graph: str, n_neighbours: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings = short | {"graph": graph, "n_neighbours": n_neighbours}
    whole = DCMVC(3, **settings, random_state=0).fit(easy(0))
    model = DCMVC(3, **settings, random_state=0)
    checkpoints = Checkpoints(tmp_path / "c", every=0)
    with pytest.raises(BrokenError):
        model.fit(easy(0), callbacks=[BreakAt(record)], checkpoint=checkpoints)
    if record > 3:  # the neighbours are known
        monkeypatch.delattr(dcmvc, "neighbours_in_table")
    model.fit(easy(0), checkpoint=checkpoints)
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")


def test_broken_inside_an_epoch_it_goes_on_with_the_labels_of_its_beginning(
    tmp_path: Path, short: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = DCMVC(3, **short, random_state=0).fit(easy(0))
    model, original, steps = DCMVC(3, **short, random_state=0), Trainer._step, [0]

    def counted(self: Trainer, *args: Any, **how: Any) -> None:
        steps[0] += 1
        if steps[0] == 14:  # three steps an epoch, three epochs before
            raise BrokenError
        original(self, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", counted)
        with pytest.raises(BrokenError):
            model.fit(easy(0), checkpoint=Checkpoints(tmp_path / "c", every=0))
    model.fit(easy(0), checkpoint=tmp_path / "c")
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")


def test_a_saved_model_predicts_the_same(tmp_path: Path, short: dict[str, Any]) -> None:
    data = easy(0)
    model = DCMVC(3, **short, random_state=0).fit(data)
    again = load_model(save_model(model, tmp_path / "m"))
    assert isinstance(again, DCMVC)
    assert_array_equal(again.centre_distances(data), model.centre_distances(data))
    assert_array_equal(again.predict(data), model.labels_)
    assert again.view_weights_ == model.view_weights_


@GRAPHS
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_data_read_by_batches_find_the_same_neighbours(
    thorough: dict[str, Any], graph: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget of which blocks of 18 rows of the inputs and of the codes are worked on."""
    data = make_multiview(100, 3, widths=(20, 24), quality=1.0, noise=0.1, random_state=seed)
    kept: list[dict[str, Tensor]] = []
    original = DCMVC._neighbours

    def watched(self: DCMVC, run: Any) -> dict[str, Any]:
        kept.append(original(self, run))
        return kept[-1]

    monkeypatch.setattr(DCMVC, "_neighbours", watched)
    settings = thorough | {"epochs": 2, "graph": graph, "random_state": seed}
    for budget in (2.4e-5, 2.0):
        model = DCMVC(3, **settings, memory_budget=budget).fit(data)
        assert (model.embedding_ is None) == (budget == 2.4e-5)
        assert_array_equal(model.predict(data), model.labels_)
    if graph == "full":
        assert all(near.dtype == torch.int32 for near in kept[0].values())
        assert all(torch.equal(kept[0][v], kept[1][v]) for v in ("0", "1"))


# -- settings and edges ----------------------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "centre_weight": 1.0,
    "neighbour_weight": 0.0,
    "centre_temperature": 0.1,
    "temperature": 0.3,
    "negative_temperature": 0.5,
    "graph": "batch",
    "n_neighbours": 12,
    "encoder": (9, 7),
    "latent": 11,
    "pretrain_epochs": 2,
    "epochs": 2,
    "batch_size": 30,
    "learning_rate": 1e-3,
    "scaling": "standard",
    "precision": "bf16",
    "random_state": 1,
}
OTHERS = {"n_clusters", "n_init", "memory_budget", "device", "threads"}


def test_every_setting_is_looked_at() -> None:
    assert set(CHANGES) | OTHERS == set(DCMVC().get_params())


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_an_effect(short: dict[str, Any], name: str) -> None:
    plain = short | {"random_state": 0}
    one, two = (
        DCMVC(3, **settings).fit(easy(0)).embedding_
        for settings in (plain, plain | {name: CHANGES[name]})
    )
    assert one.shape != two.shape or not np.allclose(one, two, atol=1e-5)


def test_the_negatives_temperature_is_the_square_if_it_is_not_given(short: dict[str, Any]) -> None:
    plain = short | {"random_state": 0, "temperature": 0.6}
    one, two = (
        DCMVC(3, **plain, negative_temperature=t).fit(easy(0)).embedding_ for t in (None, 0.6**2)
    )
    assert_array_equal(one, two)


@GRAPHS
@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize(("n", "batch"), [(10, 128), (21, 20), (8, 1), (3, 20)])
def test_any_number_of_views_and_size_of_batch(
    short: dict[str, Any], n_views: int, n: int, batch: int, graph: str
) -> None:
    data = easy(0, n=n, k=2, views=n_views)
    model = DCMVC(2, **(short | {"batch_size": batch, "graph": graph}), random_state=0).fit(data)
    assert np.isfinite(model.embedding_).all()
    assert len(model.history_) == 6
    assert_array_equal(model.predict(data), model.labels_)


def test_one_cluster_and_as_many_as_samples(short: dict[str, Any]) -> None:
    assert DCMVC(1, **short, random_state=0).fit(easy(0, k=2)).labels_.max() == 0
    assert np.isfinite(DCMVC(6, **short, random_state=0).fit(easy(0, n=6, k=2)).embedding_).all()


def test_a_constant_column_and_integer_views_are_no_obstacle(short: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (40, 5))
    counts[:, 2] = 3
    views = {"counts": counts, "real": rng.normal(size=(40, 3)).astype(np.float64)}
    model = DCMVC(2, **short, random_state=0).fit(views)
    assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"n_neighbours": 0}, "n_neighbours"),
        ({"graph": "none"}, "graph"),
        ({"negative_temperature": 0.0}, "negative_temperature"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingError, match=word):
        DCMVC(3, **settings).fit(easy(0))


def test_the_recipes_are_those_of_the_reference() -> None:
    names = ("n_neighbours", "centre_weight", "neighbour_weight", "graph")
    found = {
        name: tuple(entry.settings[key] for key in names)
        for name, entry in recipes("dcmvc").items()
    }
    assert found == {
        "ccv": (10, 1e-4, 1e-3, "full"),
        "rgbd": (10, 0.01, 1.0, "full"),
        "cora": (10, 0.01, 0.1, "full"),
        "digitproduct": (4, 0.01, 0.1, "batch"),
        "aloi100": (5, 0.1, 1e-3, "batch"),
        "hdigit": (5, 1.0, 0.1, "batch"),
    }
    scaled = [n for n, entry in recipes("dcmvc").items() if "scaling" in entry.settings]
    assert scaled == ["digitproduct"]


def test_clone_keeps_every_setting() -> None:
    model = DCMVC(4, temperature=0.3, encoder=(10,), random_state=7)
    assert clone(model).get_params() == model.get_params()
