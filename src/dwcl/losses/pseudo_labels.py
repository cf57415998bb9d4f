"""How far soft assignments are from given labels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

LEAST_PROBABILITY = 1e-12
"""Probabilities below this have the logarithm of it."""


def pseudo_label_loss(
    qs: Sequence[Tensor], labels: Sequence[Tensor], *, as_logits: bool = True
) -> Tensor:
    r"""Cross-entropy of the soft assignments of V views with a label for each sample.

    .. math::

        \ell_i = -Q_{i,y_i} + \log \sum_k e^{Q_{ik}}
        \qquad\text{or}\qquad
        \ell_i = -\log Q_{i,y_i}

    The first form takes probabilities for logits, as the code of MFLVC and of DealMVC does. It is
    gentler: its gradients are bounded, and it is never 0 but at least log(1 + (k − 1)/e).

    Parameters
    ----------
    qs : sequence of Tensor, b × k
        Soft assignments of the views.
    labels : sequence of Tensor of b
        Labels of the samples (int64, 0 to k − 1) in each view.
    as_logits : bool
        Which of the two forms.

    Returns
    -------
    Tensor, V × b
        Losses of the samples in each view.
    """
    q, y = torch.stack(list(qs)), torch.stack(list(labels))  # V × b × k, V × b
    scores = q if as_logits else q.clamp(min=LEAST_PROBABILITY).log()
    if as_logits:
        scores = functional.log_softmax(scores, dim=2)
    return -scores.gather(2, y[:, :, None]).squeeze(2)
