from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dwcl.errors import TrainingError
from dwcl.losses import reconstruction
from dwcl.nn import ViewNetworks, set_precision
from dwcl.streams import RandomStreams
from dwcl.training import Batch, Callback, Guard, InMemory, LossTerms, Record, RunInfo, Trainer
from dwcl.training.checkpoint import Snapshot
from dwcl.training.features import EMBEDDING_ROWS, embed
from dwcl.training.loop import OptimiserReset
from dwcl.training.session import Interrupted, StopRequest

WIDTHS = (6, 4)
N, BATCH, RATE = 23, 8, 1e-2  # batches of 8, 8 and 7
PHASES = [("pretrain", 2), ("contrast-1", 2), ("contrast-2", 3)]

Loss = Callable[[Batch], LossTerms]


def make_networks(seed: int = 0) -> ViewNetworks:
    streams = RandomStreams(seed)
    return ViewNetworks(
        WIDTHS,
        encoder=(5,),
        latent=3,
        decoder=(5,),
        embedding=2,
        generators=[streams.torch("networks", v) for v in range(len(WIDTHS))],
    )


def make_views(n: int = N, widths: Sequence[int] = WIDTHS) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(n, width, generator=generator) for width in widths]


def reconstruct(networks: ViewNetworks) -> Loss:
    def loss(batch: Batch) -> LossTerms:
        by_view = reconstruction(batch.views, networks.decode(networks.encode(batch.views)))
        return LossTerms(by_view.sum(), {"reconstruction": by_view})

    return loss


def make_trainer(networks: nn.Module, seed: int = 5, **options: Any) -> Trainer:
    source = InMemory(make_views())
    settings: dict[str, Any] = {"batch_size": BATCH, "learning_rate": RATE}
    return Trainer(networks, source, RandomStreams(seed), **(settings | options))


def run_phases(trainer: Trainer, networks: ViewNetworks, reset: OptimiserReset) -> None:
    """All phases, the first of which keeps its moments for the second."""
    for position, (name, epochs) in enumerate(PHASES):
        how: dict[str, Any] = {"reset": reset} if position else {}
        trainer.phase(name, epochs, reconstruct(networks), **how)


def plain_loop(
    networks: ViewNetworks, phases: Sequence[tuple[str, int]], reset: OptimiserReset, seed: int = 5
) -> list[float]:
    """Training written out; returns the mean loss over the samples of each epoch."""
    views, streams = make_views(), RandomStreams(seed)
    adam = torch.optim.Adam(networks.parameters(), lr=RATE, fused=True)
    means = []
    for p, (name, epochs) in enumerate(phases):
        for epoch in range(1, epochs + 1):
            # The first phase and the first stretch after it have one optimiser in common.
            later = {
                "never": False,
                "phase": p >= 2 and epoch == 1,
                "epoch": p >= 1 and p + epoch > 2,
            }
            if later[reset]:
                adam = torch.optim.Adam(networks.parameters(), lr=RATE, fused=True)
            order = torch.randperm(N, generator=streams.torch("shuffle", name, epoch))
            total = 0.0
            for rows in order.split(BATCH):
                decoded = networks.decode(networks.encode([view[rows] for view in views]))
                loss = sum(
                    nn.functional.mse_loss(y, view[rows])
                    for y, view in zip(decoded, views, strict=True)
                )
                assert isinstance(loss, Tensor)
                adam.zero_grad()
                loss.backward()
                adam.step()
                total += loss.item() * len(rows)
            means.append(total / N)
    return means


def same_state(a: nn.Module, b: nn.Module) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


# -- the loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_one_epoch_is_a_plain_loop_bit_for_bit(seed: int) -> None:
    networks, plain = make_networks(seed), make_networks(seed)
    trainer = make_trainer(networks, seed)
    trainer.phase("pretrain", 1, reconstruct(networks))
    (mean,) = plain_loop(plain, [("pretrain", 1)], "never", seed)
    assert same_state(networks, plain)
    assert not same_state(networks, make_networks(seed))
    assert trainer.history[0]["loss"] == pytest.approx(mean, rel=1e-6)


def test_another_seed_shuffles_in_another_way() -> None:
    first, second = make_networks(), make_networks()
    for seed, networks in enumerate([first, second]):
        make_trainer(networks, seed).phase("pretrain", 1, reconstruct(networks))
    assert not same_state(first, second)


@pytest.mark.parametrize("reset", ["never", "phase", "epoch"])
def test_the_optimiser_is_made_anew_when_it_should_be(reset: OptimiserReset) -> None:
    networks, plain = make_networks(), make_networks()
    trainer = make_trainer(networks)
    run_phases(trainer, networks, reset)
    means = plain_loop(plain, PHASES, reset)
    assert same_state(networks, plain)
    assert [r["loss"] for r in trainer.history] == pytest.approx(means, rel=1e-5)


def test_the_ways_of_resetting_differ() -> None:
    ends = []
    for reset in ("never", "phase", "epoch"):
        networks = make_networks()
        run_phases(make_trainer(networks), networks, reset)
        ends.append(networks)
    assert not any(same_state(ends[i], ends[j]) for i, j in [(0, 1), (0, 2), (1, 2)])


@pytest.mark.parametrize(
    ("reset", "steps"),
    [
        ("never", [3, 6, 9, 12, 15, 18, 21]),
        ("phase", [3, 6, 9, 12, 3, 6, 9]),
        ("epoch", [3, 6, 9, 3, 3, 3, 3]),
    ],
)
def test_adam_counts_its_steps_from_the_last_reset(
    reset: OptimiserReset, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[torch.optim.Adam] = []

    class Recorded(torch.optim.Adam):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(torch.optim, "Adam", Recorded)
    networks = make_networks()
    weight = next(iter(networks.parameters()))
    counted: list[int] = []

    class Counter(Callback):
        def on_record(self, record: Record) -> None:
            counted.append(int(made[-1].state[weight]["step"]))

    run_phases(make_trainer(networks, callbacks=[Counter()]), networks, reset)
    assert counted == steps
    assert {group["lr"] for adam in made for group in adam.param_groups} == {RATE}


def test_what_a_loss_does_not_touch_stays_as_it_is() -> None:
    networks, before = make_networks(), make_networks()
    make_trainer(networks).phase("pretrain", 2, reconstruct(networks))
    for name, parameter in networks.named_parameters():
        untouched = torch.equal(parameter, before.get_parameter(name))
        assert untouched == name.startswith("heads.")


def test_gradients_do_not_leak_into_the_next_phase() -> None:
    networks = make_networks()
    trainer = make_trainer(networks)
    trainer.phase("pretrain", 1, reconstruct(networks))
    decoder = networks.autoencoders[0].decoder
    before = [p.detach().clone() for p in decoder.parameters()]

    def encoders_alone(batch: Batch) -> LossTerms:
        total = sum(h.square().mean() for h in networks.encode(batch.views))
        assert isinstance(total, Tensor)
        return LossTerms(total, {})

    trainer.phase("second", 2, encoders_alone)
    assert all(torch.equal(p, q) for p, q in zip(decoder.parameters(), before, strict=True))


def test_the_networks_learn_in_training_mode() -> None:
    networks = make_networks().eval()
    modes: list[bool] = []
    inner = reconstruct(networks)

    def loss(batch: Batch) -> LossTerms:
        modes.append(networks.training)
        return inner(batch)

    trainer = make_trainer(networks)
    trainer.phase("first", 1, loss)
    embed(networks, trainer.source, networks.encode)
    trainer.phase("second", 1, loss)
    assert modes == [True] * 6


def test_no_epoch_is_no_change() -> None:
    networks = make_networks()
    trainer = make_trainer(networks)
    trainer.phase("pretrain", 0, reconstruct(networks))
    assert trainer.history == []
    assert same_state(networks, make_networks())


def test_a_phase_can_bring_the_batches_of_its_epochs_by_their_numbers() -> None:
    networks, plain, views = make_networks(), make_networks(), make_views()

    def batches(epoch: int) -> Iterator[Batch]:
        for start in range(epoch):  # one in the first epoch, two in the second one
            yield Batch([x[start : start + 4] for x in views], torch.arange(start, start + 4))

    trainer = make_trainer(networks)
    trainer.phase("own", 2, reconstruct(networks), batches=batches)
    adam = torch.optim.Adam(plain.parameters(), lr=RATE, fused=True)
    losses = []
    for start in (0, 0, 1):
        terms = reconstruct(plain)(Batch([x[start : start + 4] for x in views], torch.arange(4)))
        adam.zero_grad()
        terms.total.backward()
        adam.step()
        losses.append(terms.total.item())
    assert same_state(networks, plain)
    means = [record["loss"] for record in trainer.history]
    assert means == pytest.approx([losses[0], (losses[1] + losses[2]) / 2])


def test_an_epoch_of_one_step_is_a_step_on_all_samples_in_their_order() -> None:
    networks, plain = make_networks(), make_networks()
    make_trainer(networks).phase("all", 3, reconstruct(networks), whole=True)
    adam = torch.optim.Adam(plain.parameters(), lr=RATE)
    views = make_views()
    for _ in range(3):
        adam.zero_grad()
        reconstruct(plain)(Batch(views, torch.arange(N))).total.backward()
        adam.step()
    for found, expected in zip(networks.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_loss_can_ask_for_its_place_in_the_epoch() -> None:
    networks = make_networks()
    trainer = make_trainer(networks)
    inner, steps = reconstruct(networks), []

    def loss(batch: Batch) -> LossTerms:
        steps.append(trainer.step)
        return inner(batch)

    assert trainer.step == 0
    trainer.phase("first", 2, loss)
    trainer.phase("second", 1, loss)
    assert steps == [1, 2, 3] * 3


class KeptInMemory:
    """A keeper for which a checkpoint is always due."""

    def __init__(self, restored: Snapshot | None = None) -> None:
        self.restored = restored
        self.due = True
        self.saved: list[Snapshot] = []

    def save(self, snapshot: Snapshot) -> None:
        tensors = {name: tensor.clone() for name, tensor in snapshot.tensors.items()}
        self.saved.append(Snapshot(tensors, copy.deepcopy(snapshot.plain)))


def test_epochs_of_one_step_are_saved_one_by_one_and_gone_on_with() -> None:
    whole, keeper = make_networks(), KeptInMemory()
    make_trainer(whole, keeper=keeper).phase("all", 4, reconstruct(whole), whole=True)
    positions = [saved.plain["position"] for saved in keeper.saved]
    assert [p["epochs_over"] for p in positions] == [1, 2, 3, 4, 0]  # the last: the phase is over
    assert positions[-1]["phases_over"] == ("all",)
    for saved in keeper.saved[:-1]:
        resumed = make_networks(3)
        trainer = make_trainer(resumed, keeper=KeptInMemory(saved))
        trainer.phase("all", 4, reconstruct(resumed), whole=True)
        assert same_state(resumed, whole)
        assert [record["epoch"] for record in trainer.history] == [1, 2, 3, 4]


# -- history and callbacks -------------------------------------------------------------------------


def test_the_history_holds_means_over_the_samples() -> None:
    networks = make_networks()
    sizes: list[int] = []

    def loss(batch: Batch) -> LossTerms:
        sizes.append(len(batch))
        position = batch.index.float()
        inert = networks.heads[0](torch.zeros(1, 3)).sum() * 0
        parts = {"mean": position.mean(), "both": torch.stack([position.mean(), -position.mean()])}
        return LossTerms(2 * position.mean() + inert, parts)

    trainer = make_trainer(networks)
    trainer.phase("pretrain", 2, loss)
    assert sizes == [8, 8, 7] * 2
    mean = (N - 1) / 2  # which unequal batches have only if each counts by its size
    for epoch, record in enumerate(trainer.history, 1):
        assert record["event"] == "epoch"
        assert (record["phase"], record["epoch"]) == ("pretrain", epoch)
        assert record["loss"] == pytest.approx(2 * mean, rel=1e-6)
        assert record["mean"] == pytest.approx(mean, rel=1e-6)
        assert record["both"] == pytest.approx([mean, -mean], rel=1e-6)
        assert type(record["loss"]) is float
        assert record["seconds"] > 0


def test_callbacks_hear_every_record_in_their_order() -> None:
    heard: list[tuple[str, Any, int]] = []

    class Listener(Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_record(self, record: Record) -> None:
            heard.append((self.name, record.get("epoch", record["event"]), len(trainer.history)))

    networks = make_networks()
    trainer = make_trainer(networks, callbacks=(Listener(name) for name in "ab"))
    trainer.phase("pretrain", 2, reconstruct(networks))
    trainer.record({"event": "assessment"})
    assert heard == [
        ("a", 1, 1),
        ("b", 1, 1),
        ("a", 2, 2),
        ("b", 2, 2),
        ("a", "assessment", 3),
        ("b", "assessment", 3),
    ]
    assert trainer.history[-1] == {"event": "assessment"}


def test_the_first_epoch_tells_the_loss_before_anything_was_learnt() -> None:
    networks = make_networks()
    order = torch.randperm(N, generator=RandomStreams(5).torch("shuffle", "pretrain", 1))
    first = Batch([view[order[:BATCH]] for view in make_views()], order[:BATCH])
    expected = reconstruct(networks)(first).total.item()
    trainer = make_trainer(networks)
    trainer.phase("pretrain", 2, reconstruct(networks))
    trainer.phase("contrast-1", 1, reconstruct(networks))
    assert trainer.history[0]["first_loss"] == pytest.approx(expected, rel=1e-6)
    told = [
        record["first_loss"] is not None for record in trainer.history if "first_loss" in record
    ]
    assert told == [True, True]  # one for each phase
    assert "first_loss" not in trainer.history[1]


def test_the_guard_names_phase_epoch_and_view() -> None:
    networks = make_networks()
    inner = reconstruct(networks)
    calls = 0

    def loss(batch: Batch) -> LossTerms:
        nonlocal calls
        calls += 1
        terms = inner(batch)
        if calls <= 5:
            return terms
        by_view = terms.parts["reconstruction"] * torch.tensor([1.0, math.nan])
        return LossTerms(by_view.sum(), {"reconstruction": by_view})

    guard = Guard()
    guard.on_start(RunInfo("dwcl", ("colour", "shape"), 9))
    trainer = make_trainer(networks, callbacks=[guard])
    match = r"became nan in phase 'contrast-1', epoch 2, first seen in view 'shape'\."
    with pytest.raises(TrainingError, match=match):
        trainer.phase("contrast-1", 9, loss)
    assert len(trainer.history) == 2  # the record that tells of it is kept


# -- interruption ----------------------------------------------------------------------------------


def test_a_stop_request_breaks_off_before_the_next_step() -> None:
    networks = make_networks()
    stop = StopRequest()
    inner = reconstruct(networks)
    steps = 0

    def loss(batch: Batch) -> LossTerms:
        nonlocal steps
        steps += 1
        if steps == 5:
            stop.set()
        return inner(batch)

    trainer = make_trainer(networks, stop=stop)
    with pytest.raises(Interrupted):
        trainer.phase("pretrain", 9, loss)
    assert steps == 5
    assert len(trainer.history) == 1
    with pytest.raises(Interrupted):
        trainer.check_stop()


def test_without_a_request_nothing_stops() -> None:
    make_trainer(make_networks()).check_stop()


# -- embedding -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide() -> tuple[ViewNetworks, list[Tensor], list[Tensor]]:
    """Networks of the usual kind, 600 samples, and their embedding."""
    widths = (6, 59, 1)
    networks = ViewNetworks(
        widths,
        encoder=(300, 500),
        latent=64,
        decoder=(8,),
        embedding=32,
        generators=[torch.Generator().manual_seed(v) for v in range(3)],
    )
    views = make_views(600, widths)
    return networks, views, embed_all(networks, views)


def embed_all(networks: ViewNetworks, views: list[Tensor]) -> list[Tensor]:
    return embed(networks, InMemory(views), lambda xs: networks.project(networks.encode(xs)))


@pytest.mark.parametrize("n", [1, 5, 255, 256, 257, 600])
def test_a_rows_embedding_does_not_depend_on_the_number_of_samples(
    n: int, wide: tuple[ViewNetworks, list[Tensor], list[Tensor]]
) -> None:
    networks, views, whole = wide
    assert EMBEDDING_ROWS == 256
    for first, last in [(0, n), (600 - n, 600)]:
        part = embed_all(networks, [view[first:last] for view in views])
        for found, expected in zip(part, whole, strict=True):
            assert torch.equal(found, expected[first:last])


def test_a_rows_embedding_does_not_depend_on_its_neighbours(
    wide: tuple[ViewNetworks, list[Tensor], list[Tensor]],
) -> None:
    networks, views, whole = wide
    other = [torch.cat([view[:100], 7 * view[100:].flip(0)]) for view in views]
    for found, expected in zip(embed_all(networks, other), whole, strict=True):
        assert torch.equal(found[:100], expected[:100])


def test_an_embedding_is_what_the_networks_make(
    wide: tuple[ViewNetworks, list[Tensor], list[Tensor]],
) -> None:
    networks, views, whole = wide
    direct = networks.project(networks.encode(views))
    for found, expected in zip(whole, direct, strict=True):
        assert found.shape == (600, 32)
        torch.testing.assert_close(found, expected)


def test_embedding_is_in_evaluation_mode_exact_and_without_gradients() -> None:
    networks = make_networks().train()
    views = make_views()
    exact = embed(networks, InMemory(views), networks.encode)
    networks.train()
    set_precision(networks, "bf16")
    modes: list[bool] = []

    def forward(xs: list[Tensor]) -> list[Tensor]:
        modes.append(networks.training)
        return networks.encode(xs)

    found = embed(networks, InMemory(views), forward)
    assert modes == [False]
    for h, expected in zip(found, exact, strict=True):
        assert not h.requires_grad
        assert h.dtype == torch.float32
        assert torch.equal(h, expected)
    assert torch.is_grad_enabled()
