"""Lloyd's iteration for several sets of centres at once, and a tournament among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dwcl.clustering._arrays import block_size, entry_rows, row_blocks
from dwcl.clustering.distances import nearest_centres
from dwcl.products import product

WARM_UP = 4
"""Iterations before the first comparison; the gains of later ones seldom turn the order."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Samples (n × d, around the origin) and when to stop.

    Attributes
    ----------
    x : Tensor, n × d
        Samples.
    max_iter : int
        Bound on the iterations of a set of centres.
    tol : float
        Movement below which a set of centres is at rest, as part of the mean variance.
    block_rows : int or None
        Rows that are worked on at once.
    """

    x: Tensor
    max_iter: int
    tol: float
    block_rows: int | None = None

    @cached_property
    def energy(self) -> float:
        """Sum of squares of all samples: the inertia of a single centre at the origin."""
        # By blocks: the norm in float64 would take a copy of all samples in it.
        blocks = self.x.split(max(256, min(2**12, entry_rows(self.x) // 2)))
        return sum(float(torch.linalg.vector_norm(b, dtype=torch.float64)) ** 2 for b in blocks)

    @property
    def enough(self) -> float:
        """Sum of squares of a movement, over all centres, that counts as rest."""
        return self.tol * self.energy / self.x.numel()


@dataclass(frozen=True, eq=False)
class Contender:
    """A set of centres (k × d), its inertia, and the iterations that it took."""

    centres: Tensor
    inertia: float
    n_iter: int


def tournament(problem: Problem, centres: Tensor, *, to_rest: bool = True) -> Contender:
    """Let R sets of centres (R × k × d) compete, and run the winner until it is at rest.

    After some iterations only the better half goes on, for twice as many, and so forth: most of
    the time then goes to the sets that may win. Without `to_rest` it ends when one is left.
    """
    steps, left = WARM_UP, problem.max_iter
    n_iters = torch.zeros(len(centres), dtype=torch.int64, device=centres.device)
    inertias = torch.full((len(centres),), torch.inf, dtype=torch.float64, device=centres.device)
    while len(centres) > 1:
        steps = min(steps, left)
        centres, inertias, n_more = lloyd(problem, centres, steps)
        left -= steps
        better = inertias.argsort(stable=True)[: len(centres) // 2 if left else 1]
        centres, inertias, n_iters = centres[better], inertias[better], (n_iters + n_more)[better]
        steps *= 2
    if to_rest:
        centres, inertias, n_more = lloyd(problem, centres, max(1, left))
        n_iters += n_more
    return Contender(centres[0], float(inertias[0]), int(n_iters[0]))


def lloyd(problem: Problem, centres: Tensor, max_iter: int) -> tuple[Tensor, Tensor, Tensor]:
    """Iterate R sets of centres (R × k × d) until each is at rest.

    A step assigns every sample to its nearest centre and moves the centres to the means. The
    arithmetic is in the type of the centres. Returns the centres, their inertias (R, float64;
    before the last step, so never too low) and their numbers of iterations (R).
    """
    centres = centres.clone()
    device = centres.device
    inertias = torch.zeros(len(centres), dtype=torch.float64, device=device)
    n_iters = torch.zeros(len(centres), dtype=torch.int64, device=device)
    moving = torch.arange(len(centres), device=device)
    for _ in range(max_iter):
        before = centres[moving]
        sums, counts, inertias[moving] = assign_and_sum(problem, before)
        for restart in (counts == 0).any(1).nonzero().flatten().tolist():
            _fill_empty(problem, before[restart], sums[restart], counts[restart])
        after = torch.where(counts[..., None] > 0, sums / counts[..., None], before)
        centres[moving] = after
        n_iters[moving] += 1
        # A set at rest leaves the batch.
        moving = moving[(after - before).square().sum((1, 2)) > problem.enough]
        if len(moving) == 0:
            break
    return centres, inertias.clamp_(min=0), n_iters


def assign_and_sum(problem: Problem, centres: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Add up (R × k × d) and count (R × k) the samples nearest to each centre; inertias (R).

    With the samples in the last place, vector instructions find the nearest of k centres for many
    samples at once; and the sums are products of the memberships with the samples, which is
    faster than to add row by row.
    """
    n_restarts, k, d = centres.shape
    flat = centres.reshape(-1, d)
    half_squares = flat.square().sum(1, keepdim=True) / 2
    sums, counts = torch.zeros_like(flat), torch.zeros_like(half_squares)
    halves = torch.zeros(n_restarts, dtype=torch.float64, device=flat.device)
    size = block_size(len(flat), problem.block_rows)
    if flat.dtype != problem.x.dtype:
        size = min(size, max(256, entry_rows(problem.x)))
    for block in row_blocks(len(problem.x), size):
        rows = problem.x[block].to(flat.dtype)
        # |x − c|²/2 without |x|²/2, which is the same for all centres
        excess = product(-flat, rows.T).add_(half_squares).view(n_restarts, k, -1)
        least, nearest = excess.min(1, keepdim=True)
        halves += least.sum((1, 2))
        members = excess.zero_().scatter_(1, nearest, 1.0).view(len(flat), -1)
        sums += product(members, rows)
        counts += members.sum(1, keepdim=True)
    return sums.view_as(centres), counts.view(n_restarts, k), 2 * halves + problem.energy


def _fill_empty(problem: Problem, centres: Tensor, sums: Tensor, counts: Tensor) -> None:
    """Move the samples farthest from their centres into the empty clusters of one set, in place.

    A sample that is the last of its cluster stays. So does one that lies on its centre, up to
    rounding: then there are too few different samples.
    """
    x = problem.x
    labels, distances = nearest_centres(x, centres, problem.block_rows)
    scale = float(torch.linalg.vector_norm(x, dim=1).max())
    floor = 8 * torch.finfo(centres.dtype).eps * scale
    empty = (counts == 0).nonzero().flatten().tolist()
    for row in distances.argsort(descending=True, stable=True).tolist():
        donor = labels[row]
        if not empty or distances[row] <= floor:
            return
        if counts[donor] > 1:
            target = empty.pop(0)
            sums[donor] -= x[row]
            counts[donor] -= 1
            sums[target] = x[row]
            counts[target] = 1
