"""The way out of a local minimum of k-means: move single centres to where they are needed more."""

from __future__ import annotations

import torch
from torch import Tensor

from dwcl.clustering.distances import centre_distances
from dwcl.clustering.lloyd import Problem, tournament
from dwcl.clustering.seeding import draw_rows

PATIENCE = 4
"""Rounds in a row without a gain that end the search."""
MAX_ROUNDS = 12
SMALLEST_GAIN = 1e-4
"""Part of the inertia that a round must save to count as a gain."""


def improve_by_swaps(
    problem: Problem, centres: Tensor, n_variants: int, generator: torch.Generator
) -> Tensor:
    """Search for better centres (k × d) in the neighbourhood of given ones, round by round.

    A round lets `n_variants` copies compete, each with one centre moved elsewhere.
    """
    best = tournament(problem, centres[None])
    if len(centres) == 1 or best.inertia <= torch.finfo(centres.dtype).eps * problem.energy:
        return best.centres
    idle = 0
    for _ in range(MAX_ROUNDS):
        draws = torch.rand((2, 1, n_variants), generator=generator, dtype=torch.float64)
        variants = _variants(problem.x, best.centres, draws.to(problem.x.device))
        winner = tournament(problem, variants)
        idle = 0 if winner.inertia < best.inertia * (1 - SMALLEST_GAIN) else idle + 1
        if winner.inertia < best.inertia:
            best = winner
        if idle == PATIENCE:
            break
    return best.centres


def _variants(x: Tensor, centres: Tensor, draws: Tensor) -> Tensor:
    """Copy the centres (R × k × d), each time with one of them moved elsewhere.

    The less a centre is missed (its samples would go to the second nearest one), the more likely
    it is to move; the farther a sample from its centre, the more likely it draws the moved one.
    In every second copy that comes to the middle between the sample and its centre, which divides
    a cluster better where the farthest samples stand alone, as in high dimensions.
    """
    k = len(centres)
    two = centre_distances(x, centres).double().square().topk(2, dim=1, largest=False)
    own, missed = two.indices[:, 0], two.values[:, 1] - two.values[:, 0]
    loss = torch.zeros(k, dtype=torch.float64, device=x.device).index_add_(0, own, missed)
    moved = draw_rows(1 / (loss + 1e-9 * loss.sum() + 1e-300)[None], draws[0])[0]
    rows = draw_rows(two.values[None, :, 0], draws[1])[0]
    goals = x[rows]
    goals[1::2] = (goals[1::2] + centres[own[rows[1::2]]]) / 2
    variants = centres.repeat(len(rows), 1, 1)
    variants[torch.arange(len(rows), device=x.device), moved] = goals
    return variants
