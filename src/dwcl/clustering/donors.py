"""Whose values stand in for a view that a sample lacks: its neighbours in the views it has."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dwcl.clustering.neighbours import nearest_neighbours
from dwcl.clustering.tables import Table


def find_donors(features: Sequence[Table], observed: Tensor, n_donors: int) -> list[Tensor]:
    """Find donors for every sample and view that it lacks, in each view that it has.

    A donor in view w for view v is a sample that has both, and is near in w: of great product. The
    first view that the sample has gives `n_donors` of them, the nearest ones, or as many as there
    are; each further view gives those that are wanting still, but the nearest one in any case. A
    sample can be a donor by several views, and counts by each.

    Parameters
    ----------
    features : sequence of table, n × d
        Of the V views; what stands in rows of samples that lack the view has no influence, but must
        be finite.
    observed : Tensor of bool, n × V
        Which samples have which views.
    n_donors : int
        How many, at least 1.

    Returns
    -------
    list of Tensor, c_v × s
        For each view, the donors (int64) of the c_v samples that lack it, in the order of the data;
        −1 is none.
    """
    n_views = len(features)
    lacking = [(~observed[:, v]).nonzero().flatten() for v in range(n_views)]
    # No more than n_donors of the first views, and one of each further one.
    found = [torch.full((len(rows), n_donors + n_views), -1) for rows in lacking]
    for w, table in enumerate(features):
        x = table[:]
        for v in range(n_views):
            asking = observed[lacking[v], w].nonzero().flatten()  # among those that lack v
            among = (observed[:, v] & observed[:, w]).nonzero().flatten()
            m = min(n_donors, len(among))
            if v == w or m == 0 or len(asking) == 0:
                continue
            places = (t.to(x.device) for t in (lacking[v][asking], among))
            rows, others = places
            nearest = nearest_neighbours(x, m, measure="dot", rows=rows, among=others).cpu()
            mine = found[v][asking]
            had = (mine >= 0).sum(1, keepdim=True)
            taken = torch.arange(m) < (n_donors - had).clamp(min=1)
            # Behind those that it has; what is not taken goes to the last place, which stays free.
            columns = torch.where(taken, had + torch.arange(m), mine.shape[1] - 1)
            found[v][asking] = mine.scatter(1, columns, torch.where(taken, nearest, -1))
    return found
