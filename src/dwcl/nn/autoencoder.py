"""One auto-encoder with a head for every view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.nn.layers import perceptron


class AutoEncoder(nn.Module):
    """Encoder d → hidden → latent and decoder latent → hidden → d, ReLU between, linear ends."""

    def __init__(
        self,
        width: int,
        encoder: Sequence[int],
        latent: int,
        decoder: Sequence[int],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = perceptron((width, *encoder, latent), generator)
        self.decoder = perceptron((latent, *decoder, width), generator)


class AutoEncoders(nn.Module):
    """An auto-encoder for each of V views, nothing shared.

    Parameters
    ----------
    widths : sequence of int
        Number of features of each view.
    encoder, decoder : sequence of int
        Widths of the hidden layers.
    latent : int
        Width of H, the code.
    generators : sequence of torch.Generator
        One per view, for the start values.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        encoder: Sequence[int],
        latent: int,
        decoder: Sequence[int],
        generators: Sequence[torch.Generator],
    ) -> None:
        super().__init__()
        self.autoencoders = nn.ModuleList(
            AutoEncoder(width, encoder, latent, decoder, generator)
            for width, generator in zip(widths, generators, strict=True)
        )

    def encode(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """X_v (b × d_v) → H_v (b × latent)."""
        return [ae.encoder(x) for ae, x in zip(self.each(), xs, strict=True)]

    def decode(self, hs: Sequence[Tensor]) -> list[Tensor]:
        """H_v (b × latent) → the reconstructed X_v (b × d_v)."""
        return [ae.decoder(h) for ae, h in zip(self.each(), hs, strict=True)]

    def each(self) -> list[AutoEncoder]:
        """Return the auto-encoders of the views in their order."""
        return cast("list[AutoEncoder]", list(self.autoencoders))


class ViewNetworks(AutoEncoders):
    """An auto-encoder and a linear head for each of V views, nothing shared.

    Parameters
    ----------
    widths, encoder, decoder, latent, generators
        As for :class:`AutoEncoders`.
    embedding : int
        Width of Ĥ, the head's output.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        encoder: Sequence[int],
        latent: int,
        decoder: Sequence[int],
        embedding: int,
        generators: Sequence[torch.Generator],
    ) -> None:
        super().__init__(
            widths, encoder=encoder, latent=latent, decoder=decoder, generators=generators
        )
        self.heads = nn.ModuleList(perceptron((latent, embedding), g) for g in generators)

    def project(self, hs: Sequence[Tensor]) -> list[Tensor]:
        """H_v (b × latent) → Ĥ_v (b × embedding), rows of length 1."""
        return [
            functional.normalize(head(h), dim=1) for head, h in zip(self.heads, hs, strict=True)
        ]
