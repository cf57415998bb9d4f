"""Views: their quality, their agreement, the best of them, and the weights of their pairs."""

from dwcl.views.assessment import Assessment, ViewChoice, assess, by_agreement, by_quality
from dwcl.views.discrepancy import between_views, cmi, jsd, mmd
from dwcl.views.quality import QualityMeasure, SilhouetteQuality, exponential_quality_weight
from dwcl.views.weights import (
    Mechanism,
    Pair,
    as_records,
    cmi_weight,
    every_pair,
    jsd_weight,
    mmd_weight,
    weigh_pairs,
)

__all__ = [
    "Assessment",
    "Mechanism",
    "Pair",
    "QualityMeasure",
    "SilhouetteQuality",
    "ViewChoice",
    "as_records",
    "assess",
    "between_views",
    "by_agreement",
    "by_quality",
    "cmi",
    "cmi_weight",
    "every_pair",
    "exponential_quality_weight",
    "jsd",
    "jsd_weight",
    "mmd",
    "mmd_weight",
    "weigh_pairs",
]
