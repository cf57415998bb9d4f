"""The linear probe."""

from __future__ import annotations

import numpy as np
import pytest

from dwcl.errors import DataError, SettingError
from dwcl.evaluate.probe import linear_probe


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_separable_classes_are_read_off_and_noise_is_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.repeat(["a", "b", "c"], 40)
    noise = rng.normal(size=(120, 5))
    centres = np.repeat(10 * np.eye(5)[:3], 40, axis=0)
    clear = linear_probe(centres + noise, labels, random_state=seed).as_dict()
    assert clear["acc_mean"] == clear["recall_mean"] == clear["f1_mean"] == 1.0
    assert clear["acc_std"] == 0.0
    assert linear_probe(noise, labels, random_state=seed).as_dict()["acc_mean"] < 0.55


def test_splits_are_seeded_and_counted() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 3)), rng.integers(0, 3, 90)
    one, two, other = (linear_probe(x, y, random_state=s, repeats=4) for s in (0, 0, 1))
    assert one.acc.shape == (4,)
    np.testing.assert_array_equal(one.acc, two.acc)
    assert not np.array_equal(one.acc, other.acc)


def test_the_test_part_is_what_the_training_part_leaves() -> None:
    """With 10 samples and 70 %, accuracies are multiples of a third."""
    rng = np.random.default_rng(0)
    result = linear_probe(rng.normal(size=(10, 2)), np.arange(10) % 2)
    np.testing.assert_allclose(result.acc * 3, np.round(result.acc * 3))


def test_a_class_of_one_sample_is_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    labels = np.r_[np.zeros(20), np.ones(20), 2]
    assert np.isfinite(linear_probe(rng.normal(size=(41, 3)), labels).f1).all()


def test_what_cannot_be_probed_is_refused() -> None:
    with pytest.raises(DataError, match="at least two classes"):
        linear_probe(np.ones((5, 2)), np.zeros(5))
    with pytest.raises(DataError, match="n × d and n are expected"):
        linear_probe(np.ones((5, 2)), np.zeros(4))


def test_a_sample_alone_in_its_class_is_trained_on() -> None:
    """With one other class, only that one can be tested: it is always right here."""
    x = np.r_[np.zeros((20, 1)), [[9.0]]]
    result = linear_probe(x, [0] * 20 + [1])
    np.testing.assert_array_equal(result.acc, np.ones(10))


def test_a_training_part_of_one_class_predicts_it() -> None:
    result = linear_probe(np.eye(6), [0, 0, 0, 1, 1, 1], train_fraction=0.2, repeats=6)
    assert set(result.acc.tolist()) == {2 / 5}


@pytest.mark.parametrize(
    ("features", "labels", "options", "error", "match"),
    [
        (np.full((4, 1), np.nan), [0, 0, 1, 1], {}, DataError, "NaN or infinite"),
        (np.eye(4), [0, 0, 1, np.nan], {}, DataError, "labels are missing"),
        (np.eye(4), [0, 1, 2, 3], {}, DataError, "Every sample is a class of its own"),
        (np.eye(3), [0, 0, 1], {"train_fraction": 0.1}, DataError, "leaves a part without any"),
        (np.eye(4), [0, 0, 1, 1], {"train_fraction": 1.0}, SettingError, "train_fraction = 1.0"),
        (np.eye(4), [0, 0, 1, 1], {"repeats": 0}, SettingError, "repeats = 0"),
    ],
)
def test_settings_and_data_out_of_range(features, labels, options, error, match) -> None:
    with pytest.raises(error, match=match):
        linear_probe(features, labels, **options)
