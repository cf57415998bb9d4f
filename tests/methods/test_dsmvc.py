"""DSMVC: three ways to look at a sample, a gate between them, and turns of both to learn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score
from torch import Tensor, nn

from dwcl import Checkpoints, MultiView, load_model, make_multiview, save_model
from dwcl.losses import deep_divergence
from dwcl.methods.dsmvc import DSMVC
from dwcl.nn import BatchNorm
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch
from dwcl.training.callbacks import Callback, Record
from dwcl.training.loop import Trainer

SEEDS = (0, 1, 2)
SMALL: dict[str, Any] = {
    "encoder": (32,),
    "features": 16,
    "hidden": 12,
    "epochs": 30,
    "block_length": 10,
    "batch_size": 30,
    "learning_rate": 3e-3,
    "threads": 1,
    "precision": "fp32",
}
SHORT = SMALL | {"epochs": 5, "block_length": 2}


def easy(seed: int, n: int = 90, k: int = 3, n_views: int = 3) -> MultiView:
    noise = (0.05, 0.2, 0.3)[:n_views]
    return make_multiview(n, k, widths=(10, 12, 8)[:n_views], noise=noise, random_state=seed)


def networks_of(model: DSMVC, widths: tuple[int, ...], seed: int = 0) -> Any:
    streams = RandomStreams(seed)
    return model._build(widths, [streams.torch(str(v)) for v in range(len(widths))])


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# -- networks --------------------------------------------------------------------------------------


def test_the_reference_s_networks_have_the_known_sizes() -> None:
    made = networks_of(DSMVC(15), (20, 30, 20))
    assert count(made.single) == count(made.old.encoders[0]) == 404_736
    assert count(made.inner) + count(made.norm) + count(made.outer) == 27_415
    assert len(made.old.encoders) + len(made.new.encoders) == 2 * 3 - 1
    assert [made.old.mean.logits.numel(), made.new.mean.logits.numel()] == [2, 3]
    assert len({id(p) for p in made.parameters()}) == len(list(made.parameters()))


def test_weights_start_after_he_and_means_evenly() -> None:
    made = networks_of(DSMVC(15), (300, 200))
    for branch, width in ((made.single, 200), (made.old.encoders[0], 300)):
        weight = branch[0].weight.detach()
        assert weight.std().item() == pytest.approx(math.sqrt(2 / width), rel=0.02)
        assert weight.abs().max() > 3 * math.sqrt(2 / width)  # not an even distribution
        assert branch[0].bias.abs().max() <= 1 / math.sqrt(width)
    assert made.outer[0].weight.std().item() == pytest.approx(math.sqrt(2 / 100), rel=0.1)
    assert made.gate.weights().tolist() == pytest.approx([1 / 3] * 3)
    xs = [torch.rand(7, d) for d in (300, 200)]
    ways = [made.old(xs[:1]), made.new(xs), made.single(xs[1]).relu()]
    torch.testing.assert_close(made.fuse(xs), sum(ways) / 3)
    assert not torch.equal(made.new.encoders[1](xs[1]), made.single(xs[1]))


def test_features_are_not_negative_and_the_head_normalises_after_relu() -> None:
    made = networks_of(DSMVC(3, **SMALL), (10, 12, 8))
    xs = [torch.randn(20, d, generator=torch.Generator().manual_seed(d)) for d in (10, 12, 8)]
    h = made.fuse(xs)
    assert h.min() >= 0
    hidden = made.hide(h)
    torch.testing.assert_close(hidden, nn.BatchNorm1d(12)(made.inner[0](h).relu()))
    assert hidden.min() < 0
    torch.testing.assert_close(made.assign(hidden), made.outer[0](hidden).softmax(1))


def test_of_two_views_the_first_alone_is_old_whatever_its_weight() -> None:
    made = networks_of(DSMVC(3, **SMALL), (10, 8))
    xs = [torch.rand(9, d) for d in (10, 8)]
    alone = made.old.encoders[0](xs[0]).relu()
    for logit in (1.0, -5.0):
        with torch.no_grad():
            made.old.mean.logits.fill_(logit)
        assert torch.equal(made.old(xs[:1]), alone)
    made.fuse(xs).sum().backward()
    assert made.old.mean.logits.grad.tolist() == [0.0]


# -- the loss --------------------------------------------------------------------------------------


def plain_loss(networks: Any, xs: list[Tensor]) -> list[Tensor]:
    """Give the three terms by plain layers, with a kernel of the median as sorting has it."""

    def encoded(layers: nn.Module, x: Tensor) -> Tensor:
        for layer in layers:  # type: ignore[attr-defined]
            x = layer(x)
        return x.clamp(min=0)

    def joined(branch: Any, views: list[Tensor]) -> Tensor:
        weights = branch.mean.logits.exp() / branch.mean.logits.exp().sum()
        pairs = zip(branch.encoders, views, strict=True)
        return sum(w * encoded(e, x) for w, (e, x) in zip(weights, pairs, strict=True))  # type: ignore[return-value]

    gate = networks.gate.logits.exp() / networks.gate.logits.exp().sum()
    fused = gate[0] * joined(networks.old, xs[:-1]) + gate[1] * joined(networks.new, xs)
    fused = fused + gate[2] * encoded(networks.single, xs[-1])
    inner = networks.inner[0](fused).clamp(min=0)
    norm = networks.norm
    spread = (inner.var(0, unbiased=False) + norm.eps).sqrt()
    h = norm.weight * (inner - inner.mean(0)) / spread + norm.bias
    q = networks.outer[0](h).softmax(1)
    far = (h[:, None] - h[None]).square().sum(2)
    scale = 0.15 * far.detach().flatten().sort().values[(len(h) ** 2 - 1) // 2]
    kernel = (-far / (2 * scale)).exp()
    corners = (-(q[:, None] - torch.eye(q.shape[1], dtype=q.dtype)).square().sum(2)).exp()

    def divergence(w: Tensor) -> Tensor:
        k = w.shape[1]
        n = w.T @ kernel @ w
        total = sum(n[a, c] / (n[a, a] * n[c, c]).sqrt() for a in range(k) for c in range(a + 1, k))
        return 2 * total / (k * (k - 1))  # type: ignore[return-value]

    b = len(q)
    alike = sum(q[i] @ q[j] for i in range(b) for j in range(i + 1, b)) * 2 / (b * (b - 1))
    return [divergence(q), alike, divergence(corners)]  # type: ignore[list-item]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_loss_is_the_plain_one_and_so_are_its_gradients(seed: int) -> None:
    model = DSMVC(3, **SMALL)
    made = networks_of(model, (10, 12, 8), seed).double()
    generator = torch.Generator().manual_seed(seed)
    xs = [torch.rand(11, d, generator=generator, dtype=torch.float64) for d in (10, 12, 8)]
    terms = model.loss(made, Batch(xs, torch.arange(11)))
    expected = plain_loss(made, xs)
    assert list(terms.parts) == ["divergence", "orthogonality", "corners"]
    for found, term in zip(terms.parts.values(), expected, strict=True):
        torch.testing.assert_close(found, term)
    parameters = list(made.parameters())
    ours, theirs = (
        torch.autograd.grad(total, parameters)
        for total in (terms.total, sum(expected))  # type: ignore[arg-type]
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


def test_the_kernel_is_as_wide_as_asked() -> None:
    xs = [torch.rand(9, d) for d in (10, 8)]
    batch = Batch(xs, torch.arange(9))
    for width in (0.15, 0.6):
        model = DSMVC(3, **SMALL, kernel_width=width)
        made = networks_of(model, (10, 8))
        h = made.hide(made.fuse(xs))
        expected = deep_divergence(h, made.assign(h), width=width).sum()
        torch.testing.assert_close(model.loss(made, batch).total, expected)


# -- how it learns ---------------------------------------------------------------------------------


class Watch:
    """Keeps what is learnt at each step, and by which optimiser."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: list[dict[str, Tensor]] = []
        self.optimisers: list[int] = []
        self.steps: list[float] = []
        self.sizes: list[int] = []
        original = Trainer._step

        def step(trainer: Trainer, phase: Any, batch: Batch, *rest: Any, **how: Any) -> None:
            original(trainer, phase, batch, *rest, **how)
            self.states.append({n: t.clone() for n, t in trainer.networks.state_dict().items()})
            optimiser = trainer._optimisers["main"]
            self.steps.append(max(float(s["step"]) for s in optimiser.state.values()))
            self.sizes.append(len(batch))

        monkeypatch.setattr(Trainer, "_step", step)


def test_networks_and_gate_learn_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watch(monkeypatch)
    model = DSMVC(3, **SHORT, random_state=0).fit(easy(0, n=70))
    phases = [(r["phase"], r["epoch"]) for r in model.history_]
    turns = [("networks-1", 1), ("networks-1", 2), ("gate-2", 1), ("gate-2", 2), ("networks-3", 1)]
    assert phases == turns
    # Two batches of 30 an epoch, the last 10 samples are left out; Adam begins anew each epoch.
    assert seen.sizes == [30] * 10
    assert seen.steps == [1, 2] * 5
    running = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    first = {n: t for n, t in seen.states[0].items() if n not in running}
    for number, (before, after) in enumerate(zip(seen.states, seen.states[1:], strict=False), 1):
        moved = {name for name in after if not torch.equal(before[name], after[name])}
        assert running <= moved
        if 4 <= number < 8:
            assert moved - running == {"gate.logits"}
        else:
            assert moved - running == set(first) - {"gate.logits"}


def test_the_gate_moves_no_faster_than_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    model = DSMVC(3, **SMALL, random_state=0).fit(easy(0))
    logits = model.networks_.gate.logits.detach()
    assert 0 < (logits - 1 / 3).abs().max() <= 30 * 3e-3 * 1.01  # 10 epochs of 3 steps
    assert sum(model.gate_weights_.values()) == pytest.approx(1)
    assert list(model.gate_weights_) == ["old", "new", "single"]
    assert list(model.gate_weights_.values()) == pytest.approx(logits.softmax(0).tolist())


def test_the_history_has_the_terms_of_the_loss() -> None:
    for record in DSMVC(3, **SHORT, random_state=0).fit(easy(0)).history_:
        terms = [record[name] for name in ("divergence", "orthogonality", "corners")]
        assert record["loss"] == pytest.approx(sum(terms), rel=1e-5)


# -- restarts --------------------------------------------------------------------------------------


def test_of_several_restarts_the_one_with_the_smallest_last_loss_is_kept() -> None:
    data = easy(0)
    several = DSMVC(3, **SHORT, restarts=3, random_state=0).fit(data)
    epochs = [r for r in several.history_ if r["event"] == "epoch"]
    assert several.restart_losses_ == [epochs[i]["loss"] for i in (4, 9, 14)]
    assert len(set(several.restart_losses_)) == 3
    assert epochs[7]["phase"] == "gate-2-restart-2"
    one = DSMVC(3, **SHORT, random_state=0).fit(data)
    assert one.restart_losses_ == several.restart_losses_[:1]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_kept_networks_are_those_of_that_restart(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Watch(monkeypatch)
    model = DSMVC(3, **SHORT, restarts=3, random_state=seed).fit(easy(seed))
    least = int(np.argmin(model.restart_losses_))
    steps = len(seen.states) // 3
    expected = seen.states[(least + 1) * steps - 1]
    for name, tensor in model.networks_.state_dict().items():
        assert torch.equal(tensor, expected[name])


# -- what comes out --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clear_clusters_and_beats_its_untrained_networks(seed: int) -> None:
    data = easy(seed)
    trained = DSMVC(3, **SMALL, restarts=2, random_state=seed).fit(data)
    untrained = DSMVC(3, **(SMALL | {"epochs": 0}), random_state=seed).fit(data)
    score = adjusted_rand_score(data.labels, trained.labels_)
    assert score > 0.8
    assert score > adjusted_rand_score(data.labels, untrained.labels_) + 0.1


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    data = easy(1)
    one, two, other = (DSMVC(3, **SHORT, random_state=s).fit(data) for s in (3, 3, 4))
    assert one.embedding_.tobytes() == two.embedding_.tobytes()
    assert one.embedding_.tobytes() != other.embedding_.tobytes()


def test_predictions_are_those_of_the_fit_and_of_each_sample_by_itself(tmp_path: Path) -> None:
    data = easy(0, n=100)
    known, new = data.take(range(80)), data.take(range(80, 100))
    model = DSMVC(3, **SHORT, random_state=0).fit(known)
    assert_array_equal(model.predict(known), model.labels_)
    assert_array_equal(model.transform(known), model.embedding_)
    assert model.embedding_.shape == (80, 16)
    np.testing.assert_allclose(model.predict_proba(new).sum(1), 1, rtol=1e-5)
    order = np.random.default_rng(0).permutation(20)
    shares = model.predict_proba(new)
    np.testing.assert_allclose(model.predict_proba(new.take(order)), shares[order], atol=1e-6)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert_array_equal(loaded.predict_proba(new), shares)
    assert loaded.gate_weights_ == model.gate_weights_
    assert loaded.restart_losses_ == model.restart_losses_


def test_rounded_products_change_little() -> None:
    data = easy(0)
    full, rounded = (
        DSMVC(3, **(SMALL | {"precision": p}), random_state=0).fit(data) for p in ("fp32", "bf16")
    )
    assert not np.array_equal(full.embedding_, rounded.embedding_)
    assert adjusted_rand_score(full.labels_, rounded.labels_) > 0.9
    losses = [model.history_[-1]["loss"] for model in (full, rounded)]
    assert losses[0] == pytest.approx(losses[1], abs=0.05)


# -- broken off ------------------------------------------------------------------------------------


class BrokenError(Exception):
    """Stands for a crash."""


@pytest.mark.parametrize("step", [1, 2, 5, 9, 12, 16, 17, 24])
def test_a_run_that_was_broken_off_ends_in_the_same_bytes(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, settings = easy(0, n=70), SHORT | {"epochs": 4, "restarts": 3, "random_state": 0}
    whole = DSMVC(3, **settings).fit(data)
    steps = [0]
    original = Trainer._step

    def counted(self: Trainer, *args: Any, **how: Any) -> None:
        steps[0] += 1
        if steps[0] == step:
            raise BrokenError
        original(self, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", counted)
        with pytest.raises(BrokenError):
            DSMVC(3, **settings).fit(data, checkpoint=Checkpoints(tmp_path, every=0))
    resumed = DSMVC(3, **settings).fit(data, checkpoint=tmp_path)
    assert resumed.restart_losses_ == whole.restart_losses_
    for name, tensor in whole.networks_.state_dict().items():
        assert torch.equal(tensor, resumed.networks_.state_dict()[name])
    assert resumed.embedding_.tobytes() == whole.embedding_.tobytes()


@pytest.mark.parametrize("record", [2, 4, 5, 8, 12])
def test_a_run_that_was_broken_off_at_a_record_too(tmp_path: Path, record: int) -> None:
    class BreakAt(Callback):
        left = record

        def on_record(self, _: Record) -> None:
            self.left -= 1
            if self.left == 0:
                raise BrokenError

    data, settings = easy(0, n=70), SHORT | {"epochs": 4, "restarts": 3, "random_state": 0}
    whole = DSMVC(3, **settings).fit(data)
    with pytest.raises(BrokenError):
        DSMVC(3, **settings).fit(
            data, callbacks=[BreakAt()], checkpoint=Checkpoints(tmp_path, every=0)
        )
    resumed = DSMVC(3, **settings).fit(data, checkpoint=tmp_path)
    assert resumed.restart_losses_ == whole.restart_losses_
    assert resumed.embedding_.tobytes() == whole.embedding_.tobytes()


# -- shapes at the edge ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_any_number_of_views(n_views: int) -> None:
    scores = []
    for seed in range(3):
        data = easy(seed, n_views=n_views)
        model = DSMVC(3, **(SMALL | {"restarts": 2}), random_state=seed).fit(data)
        assert list(model.gate_weights_) == ["old", "new", "single"][n_views == 1 :]
        scores.append(adjusted_rand_score(data.labels, model.labels_))
    assert np.median(scores) > 0.8  # the divergence has local optima


@pytest.mark.parametrize(("n", "batch"), [(10, 128), (33, 32), (12, 1), (31, 31)])
def test_any_size_of_batch(n: int, batch: int) -> None:
    settings = SHORT | {"batch_size": batch}
    model = DSMVC(2, **settings, random_state=0).fit(easy(0, n=n, k=2))
    assert np.isfinite(model.embedding_).all()
    untrained = DSMVC(2, **(settings | {"epochs": 0}), random_state=0).fit(easy(0, n=n, k=2))
    assert not np.array_equal(model.embedding_, untrained.embedding_)


def test_a_single_cluster_and_no_epochs() -> None:
    model = DSMVC(1, **SHORT, random_state=0).fit(easy(0))
    assert set(model.labels_) == {0}
    none = DSMVC(3, **(SHORT | {"epochs": 0, "restarts": 4}), random_state=0).fit(easy(0))
    assert none.restart_losses_ == []
    assert isinstance(none.networks_.norm, BatchNorm)


def test_a_constant_column_integers_and_double_precision_are_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (40, 5))
    counts[:, 2] = 3
    model = DSMVC(2, **SHORT, random_state=0)
    model.fit({"counts": counts, "real": rng.normal(size=(40, 3))})
    assert np.isfinite(model.embedding_).all()
    assert model.embedding_.dtype == np.float32


def test_data_that_are_read_by_batches_serve_as_well() -> None:
    data = easy(0)
    model = DSMVC(3, **SMALL, memory_budget=1e-6, random_state=0).fit(data)
    assert model.embedding_ is None
    assert adjusted_rand_score(data.labels, model.labels_) > 0.8
