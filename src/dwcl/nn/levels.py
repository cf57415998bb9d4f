"""Auto-encoders whose codes have two further levels: features and soft assignments."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from dwcl.nn.autoencoder import AutoEncoders
from dwcl.nn.layers import joint_generator, perceptron


class LevelNetworks(AutoEncoders):
    """An auto-encoder for each of V views, and two linear heads on the codes that views share.

    Parameters
    ----------
    widths, encoder, decoder, latent, generators
        As for :class:`AutoEncoders`. The heads start alike whatever the order of the views.
    embedding : int
        Width of Ĥ, the output of the feature head.
    n_clusters : int
        Width of Q, the output of the label head.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        encoder: Sequence[int],
        latent: int,
        decoder: Sequence[int],
        embedding: int,
        n_clusters: int,
        generators: Sequence[torch.Generator],
    ) -> None:
        super().__init__(
            widths, encoder=encoder, latent=latent, decoder=decoder, generators=generators
        )
        generator = joint_generator(generators)
        self.feature_head = perceptron((latent, embedding), generator)
        self.label_head = perceptron((latent, n_clusters), generator)

    def project(self, hs: Sequence[Tensor]) -> list[Tensor]:
        """H_v (b × latent) → Ĥ_v (b × embedding), rows of length 1."""
        # All views at once: one product instead of V.
        rows = functional.normalize(self.feature_head(torch.cat(list(hs))), dim=1)
        return list(rows.tensor_split(len(hs)))

    def assign(self, hs: Sequence[Tensor]) -> list[Tensor]:
        """H_v (b × latent), or what else has its width, → Q_v (b × k), rows that sum to 1."""
        rows = self.label_head(torch.cat(list(hs))).softmax(dim=1)
        return list(rows.tensor_split(len(hs)))
