"""The plain version of DCP computes what the engine computes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from dwcl.bench.methods import Turns, take_turns
from dwcl.bench.plain import get_plain
from dwcl.bench.plain.dcp import compared_pairs, information_loss

# Weights far from the usual ones, so that no term is lost beside another.
TINY: dict[str, Any] = {
    "hidden": (6, 7), "latent": 4, "predictor": (5,), "n_init": 1, "learning_rate": 1e-2,
    "entropy_weight": 2.0, "side_weight": 0.6, "prediction_weight": 3.0,
    "reconstruction_weight": 1.5, "n_clusters": 2, "precision": "fp32", "threads": 1,
}  # fmt: skip


def agree(turns: Turns) -> None:
    for phase in ("contrast", "prediction"):
        ours, theirs = zip(*turns.losses[phase], strict=True)
        assert len(ours) == 5
        assert ours == pytest.approx(theirs, rel=1e-4)
        assert ours[0] > ours[-1]


@pytest.mark.parametrize("mode", ["core", "complete"])
@pytest.mark.parametrize("widths", [(4,), (4, 3), (4, 3, 5), (4, 3, 5, 2)])
@pytest.mark.parametrize("n", [20, 33])
def test_both_come_to_the_same_losses(n: int, widths: tuple[int, ...], mode: str) -> None:
    settings = TINY | {"mode": mode, "batch_size": 64}
    agree(take_turns(get_plain("dcp"), n, widths, epochs=5, settings=settings))


def test_several_batches_in_one_order_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randperm", lambda n, **how: torch.arange(n))
    settings = TINY | {"batch_size": 8}
    agree(take_turns(get_plain("dcp"), 30, (4, 3, 5), epochs=5, settings=settings))


def test_predictors_look_on_until_they_learn() -> None:
    """Weights rest; what their layers normalise by follows the codes from the first epoch on."""
    plain = get_plain("dcp")
    before, now = {}, {}

    def watched(make: Any) -> Any:
        def made(model: Any, networks: Any, views: Any) -> Any:
            before.update({k: t.clone() for k, t in networks.state_dict().items()})
            now.update(networks.state_dict())
            return make(model, networks, views)

        return made

    phases = {"contrast": watched(plain.phases["contrast"])}
    only = type(plain)("dcp", phases, plain.schedule)
    take_turns(only, 20, (4, 3), epochs=2, settings=TINY | {"batch_size": 64})
    predictors = [name for name in now if name.startswith("predictors")]
    for name in predictors:
        moved = not torch.equal(before[name], now[name])
        assert moved == ("running" in name or "num_batches" in name), name
    assert any("running" in name for name in predictors)
    assert not torch.equal(before["encoders.0.0.0.weight"], now["encoders.0.0.0.weight"])


def test_the_loss_of_two_codes_by_hand() -> None:
    a = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    c = torch.tensor([[0.8, 0.2], [0.4, 0.6]])
    assert information_loss(a, c, 10.0).item() == pytest.approx(-12.313963, abs=1e-5)
    assert information_loss(a, c, 1.0).item() == pytest.approx(-0.040581, abs=1e-6)
    identity = torch.eye(2)
    assert information_loss(identity, identity, 10.0).item() == pytest.approx(-19 * math.log(2))
    one = torch.eye(2)[[0, 0]]
    assert abs(information_loss(one, one, 10.0).item()) < 1e-11


def test_pairs_and_what_their_sum_is_divided_by() -> None:
    assert compared_pairs(2, "core") == compared_pairs(2, "complete") == ([(0, 1)], 1)
    assert compared_pairs(3, "core") == ([(0, 1), (0, 2)], 2)
    assert compared_pairs(3, "complete") == ([(0, 1), (0, 2), (1, 2)], 3)
