"""DCMVC in plain eager PyTorch: k-means by angles start after start, contrasts view after view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import adam, learn, shuffled
from dwcl.bench.plain.concat_ae import pretrain
from dwcl.bench.plain.dsmvc import weighted_mean
from dwcl.methods.dcmvc import DCMVC, FusedNetworks

ABSENT = -10.0
ITERATIONS, TOLERANCE = 300, 1e-4
ROWS = 256


def cosine_kmeans(x: Tensor, n_clusters: int, n_init: int, generator: torch.Generator) -> Tensor:
    """Find the labels (n) with the least sum of cosine distances, over all steps of all starts."""
    x = x.double()
    directions = functional.normalize(x, dim=1)
    enough = TOLERANCE * float(x.var(0, correction=0).mean())
    best, least = torch.zeros(len(x), dtype=torch.int64), math.inf
    for _ in range(n_init):
        centres = x[first_centres(directions, n_clusters, generator)]
        before = torch.full_like(best, -1)
        for _ in range(ITERATIONS):
            distances = 1 - directions @ functional.normalize(centres, dim=1).T
            nearest, labels = distances.min(1)
            if (total := float(nearest.sum())) < least:
                best, least = labels, total
            members = functional.one_hot(labels, n_clusters).double()
            means = members.T @ x / members.sum(0).clamp(min=1)[:, None]
            shift = (1 - functional.cosine_similarity(centres, means)).sum()
            if torch.equal(labels, before) or shift <= enough:
                break
            centres, before = means, labels
    return best


def first_centres(directions: Tensor, n_clusters: int, generator: torch.Generator) -> list[int]:
    """Choose samples that are far from each other: greedy k-means++ by cosine distances."""
    chosen = [int(torch.randint(len(directions), (1,), generator=generator))]
    nearest = (1 - directions @ directions[chosen[0]]).clamp(min=0)
    for _ in range(n_clusters - 1):
        weights = nearest if nearest.any() else torch.ones_like(nearest)
        trials = 2 + int(math.log(n_clusters))
        candidates = weights.multinomial(trials, replacement=True, generator=generator)
        distances = (1 - directions[candidates] @ directions.T).clamp(min=0)
        remaining = torch.minimum(distances, nearest)
        winner = int(remaining.sum(1).argmin())
        chosen.append(int(candidates[winner]))
        nearest = remaining[winner]
    return chosen


def neighbour_graph(x: Tensor, n_neighbours: int) -> Tensor:
    """Join samples (b × d) with their nearest ones, themselves included: b × b, symmetric."""
    b = len(x)
    near = torch.cdist(x, x).topk(min(n_neighbours, b), largest=False).indices
    graph = torch.eye(b, dtype=torch.bool).scatter(1, near, True)
    return graph | graph.T


def centre_contrast(
    z: Tensor, z_v: Tensor, labels: Tensor, n_clusters: int, temperature: float
) -> Tensor:
    """Contrast the centres of clusters in common (b × d) with those in a view."""
    members = functional.one_hot(labels, n_clusters).T.to(z.dtype)  # k × b
    counts = members.sum(1, keepdim=True)
    q = functional.normalize(members @ z / counts.clamp(min=1), dim=1)
    u = functional.normalize(members @ z_v / counts.clamp(min=1), dim=1)
    logits = torch.where(torch.eye(n_clusters, dtype=torch.bool), q @ u.T, q @ q.T) / temperature
    present = counts[:, 0] > 0
    logits = logits.masked_fill(~present, ABSENT)
    return functional.cross_entropy(logits[present], present.nonzero()[:, 0])


def neighbour_contrast(
    z: Tensor,
    z_v: Tensor,
    related: Tensor,
    same: Tensor,
    temperature: float,
    negative_temperature: float,
) -> Tensor:
    """Contrast samples of a view with common ones (b × d), by who is near whom and labelled alike.

    `related` and `same` are b × b, with diagonals that are true.
    """
    own, common = (functional.normalize(rows, dim=1, eps=1e-8) for rows in (z_v, z))
    across, inside = own @ common.T, own @ own.T
    positive = across[related & same].sum() / temperature
    apart = ~related & ~same
    logits = torch.cat([inside, across], dim=1) / negative_temperature
    logits = logits.masked_fill(~apart.repeat(1, 2), -torch.inf)
    negative = logits[apart.any(1)].logsumexp(1).sum()
    return (negative - positive) / len(z)


class PlainDCMVC:
    """The contrastive epochs of DCMVC, each with the k-means that goes before it.

    Parameters
    ----------
    model : DCMVC
        For its settings.
    networks : FusedNetworks
        With plain layers.
    views : sequence of Tensor, n × d_v
        All samples. Their graphs are made at once, n × n for each view.
    """

    def __init__(self, model: DCMVC, networks: FusedNetworks, views: Sequence[Tensor]) -> None:
        self.model = model
        self.networks = networks.train()
        self.views = list(views)
        self._generator = torch.Generator().manual_seed(0)
        self._graphs: list[Tensor] = []
        if model.graph == "full":
            self._graphs = [neighbour_graph(x, model.n_neighbours) for x in views]

    def epoch(self) -> float:
        """Label all samples, and learn from them once with the optimiser of the pre-training."""
        starts = torch.Generator().manual_seed(0)
        codes = self.common_codes()
        labels = cosine_kmeans(codes, self.model.n_clusters, self.model.n_init, starts)
        batches = shuffled(len(codes), self.model.batch_size, self._generator)
        optimiser = adam(self.networks, self.model.learning_rate)
        return learn(lambda index: self.loss(index, labels[index]), batches, optimiser)

    @torch.no_grad()
    def common_codes(self) -> Tensor:
        """Make the common codes of all samples (n × latent), block by block."""
        blocks = zip(*(view.split(ROWS) for view in self.views), strict=True)
        return torch.cat([self._common(self._codes(xs)) for xs in blocks])

    def loss(self, index: Tensor, labels: Tensor) -> Tensor:
        """Give the loss of a batch, by the positions and the labels of its samples."""
        model = self.model
        xs = [view[index] for view in self.views]
        codes = self._codes(xs)
        common = self._common(codes)
        same = labels[:, None] == labels
        negative_temperature = model.negative_temperature or model.temperature**2
        loss = torch.zeros(())
        for v, (x, code, autoencoder) in enumerate(
            zip(xs, codes, self.networks.each(), strict=True)
        ):
            centres = centre_contrast(
                common, code, labels, model.n_clusters, model.centre_temperature
            )
            related = self._related(v, index, x)
            neighbours = neighbour_contrast(
                common, code, related, same, model.temperature, negative_temperature
            )
            loss = loss + functional.mse_loss(autoencoder.decoder(code), x)
            loss = loss + model.centre_weight * centres + model.neighbour_weight * neighbours
        return loss

    def _related(self, view: int, index: Tensor, x: Tensor) -> Tensor:
        """Tell who of a batch is near whom in a view (b × b), or the same."""
        if self._graphs:
            return self._graphs[view][index][:, index]
        return neighbour_graph(x, self.model.n_neighbours)

    def _codes(self, xs: Sequence[Tensor]) -> list[Tensor]:
        return [ae.encoder(x) for ae, x in zip(self.networks.each(), xs, strict=True)]

    def _common(self, codes: Sequence[Tensor]) -> Tensor:
        return weighted_mean(self.networks.fusion.logits, codes)


def contrast(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the contrastive epoch under the settings of a model."""
    return PlainDCMVC(model, cast(FusedNetworks, networks), views).epoch


def schedule(epochs: int) -> dict[str, Any]:
    """Run each phase for so many epochs."""
    return {"pretrain_epochs": epochs, "epochs": epochs}


PLAIN = PlainVersion("dcmvc", {"pretrain": pretrain, "contrast": contrast}, schedule)
