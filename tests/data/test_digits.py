"""The embedded digits: shapes, repeatability, and information in every view."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits as load_images
from sklearn.metrics import normalized_mutual_info_score

from dwcl.data import descriptors
from dwcl.data.checks import check_values
from dwcl.data.digits import load_digits
from dwcl.data.multiview import MultiView
from dwcl.data.scaling import Scaling


@pytest.fixture(scope="module")
def digits() -> MultiView:
    return load_digits()


def kmeans_nmi(digits: MultiView, x: np.ndarray) -> float:
    found = KMeans(10, n_init=2, random_state=0).fit_predict(x)
    return float(normalized_mutual_info_score(digits.labels, found))


def test_what_is_in_it(digits: MultiView) -> None:
    assert digits.n_samples == 1797
    assert dict(zip(digits.names, digits.widths, strict=True)) == {
        "pixels": 64,
        "gradients": 72,
        "fourier": 25,
        "zernike": 25,
        "profiles": 48,
        "patterns": 10,
    }
    assert {view.dtype for view in digits.arrays} == {np.dtype(np.float32)}
    assert digits.provenance.source == "embedded:digits"
    assert digits.provenance.layout[0] == "pixels: 64 features, grey values from 0 to 1"
    np.testing.assert_array_equal(digits.labels, load_images().target)


def test_views_are_the_descriptors_of_the_images(digits: MultiView) -> None:
    images = load_images().images / 16
    np.testing.assert_array_equal(
        digits["pixels"].reshape(images.shape), images.round(5).astype("f4")
    )
    np.testing.assert_allclose(
        digits["zernike"], descriptors.zernike_moments(images, order=8), atol=1e-5
    )


def test_same_bytes_each_time(digits: MultiView) -> None:
    assert load_digits().fingerprint() == digits.fingerprint()


def test_values_pass_the_checks(digits: MultiView) -> None:
    notes = check_values(digits, scaling_kinds=dict.fromkeys(digits.names, "minmax"))
    assert all("columns are constant" in note for note in notes)


def test_every_view_carries_information_and_all_together_more_than_most(digits: MultiView) -> None:
    scaled = Scaling.fit(digits, "standard").transform(digits)
    scores = {name: kmeans_nmi(digits, x) for name, x in zip(digits.names, scaled, strict=True)}
    least = {"pixels": 0.55, "gradients": 0.6, "fourier": 0.5, "zernike": 0.4, "profiles": 0.55}
    assert all(scores[name] > bound for name, bound in least.items()), scores
    assert 0.1 < scores["patterns"] < min(scores[name] for name in least)
    assert kmeans_nmi(digits, np.hstack(scaled)) > max(0.7, *scores.values())
