"""Auto-encoders of several views with heads that the views share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dwcl.nn.autoencoder import AutoEncoders
from dwcl.nn.layers import perceptron


class SharedHeads(AutoEncoders):
    """An auto-encoder for each of V views; a head for features and one for soft assignments.

    Each head, latent → latent → its width, is the same for all views, so that features and clusters
    of one view mean the same as those of another.

    Parameters
    ----------
    widths, encoder, decoder, latent, generators
        As for :class:`AutoEncoders`.
    features, n_clusters : int
        Widths of the heads.
    shared : torch.Generator
        For the start values of the heads.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        encoder: Sequence[int],
        latent: int,
        decoder: Sequence[int],
        features: int,
        n_clusters: int,
        generators: Sequence[torch.Generator],
        shared: torch.Generator,
    ) -> None:
        super().__init__(
            widths, encoder=encoder, latent=latent, decoder=decoder, generators=generators
        )
        self.features = perceptron((latent, latent, features), shared)
        self.labels = perceptron((latent, latent, n_clusters), shared)

    def forward(self, xs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """X_v (b × d_v) → H_v (b × features), of any length, and Q_v (b × k), rows sum to 1."""
        codes = torch.cat(self.encode(xs))  # of all views, since the heads are the same
        qs = self.labels(codes).softmax(1)
        return list(self.features(codes).chunk(len(xs))), list(qs.chunk(len(xs)))

    def without_decoders(self) -> dict[str, Tensor]:
        """Return the parameters of encoders and heads by name."""
        return {name: p for name, p in self.named_parameters() if ".decoder." not in name}
