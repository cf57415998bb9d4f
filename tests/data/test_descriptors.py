"""Image descriptors: hand-computed cases, slow references and invariances."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest

from dwcl.data import descriptors
from dwcl.errors import DataError, SettingError


@pytest.fixture(params=range(2))
def images(request: pytest.FixtureRequest) -> np.ndarray:
    return np.random.default_rng(request.param).uniform(size=(3, 9, 9))


def test_pixels_keep_the_order_of_rows() -> None:
    images = np.arange(12).reshape(2, 2, 3)
    assert descriptors.pixels(images).tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


# -- oriented gradients ---------------------------------------------------------------------------


def slow_gradients(image: np.ndarray, rows: int, columns: int, n_bins: int) -> np.ndarray:
    """One pixel after the other."""

    def slope(line: np.ndarray, i: int) -> float:
        low, high = max(i - 1, 0), min(i + 1, len(line) - 1)
        return (line[high] - line[low]) / (high - low)

    h, w = image.shape
    histograms = np.zeros((rows, columns, n_bins))
    for y in range(h):
        for x in range(w):
            gy, gx = slope(image[:, x], y), slope(image[y], x)
            position = (math.atan2(gy, gx) % math.pi) / math.pi * n_bins
            low = math.floor(position)
            row = max(r for r in range(rows) if r * h // rows <= y)
            column = max(c for c in range(columns) if c * w // columns <= x)
            share = position - low
            histograms[row, column, low % n_bins] += math.hypot(gy, gx) * (1 - share)
            histograms[row, column, (low + 1) % n_bins] += math.hypot(gy, gx) * share
    return histograms.ravel() / np.linalg.norm(histograms)


@pytest.mark.parametrize(("cells", "n_bins"), [((3, 3), 8), ((2, 4), 5), ((1, 9), 2)])
def test_gradients_agree_with_a_slow_reference(
    images: np.ndarray, cells: tuple[int, int], n_bins: int
) -> None:
    expected = [slow_gradients(image, *cells, n_bins) for image in images]
    result = descriptors.oriented_gradients(images, cells=cells, n_bins=n_bins)
    np.testing.assert_allclose(result, expected, atol=1e-12)


def test_a_ramp_has_one_orientation() -> None:
    ramp = np.tile(np.arange(4.0), (4, 1))
    across, down = descriptors.oriented_gradients([ramp, ramp.T], cells=(1, 1), n_bins=4)
    np.testing.assert_allclose(across, [1, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(down, [0, 0, 1, 0], atol=1e-12)


def test_gradients_ignore_sign_brightness_and_contrast(images: np.ndarray) -> None:
    plain = descriptors.oriented_gradients(images)
    np.testing.assert_allclose(descriptors.oriented_gradients(5 - 3 * images), plain, atol=1e-12)


def test_an_image_without_edges_stays_zero() -> None:
    assert (descriptors.oriented_gradients(np.full((1, 8, 8), 0.7)) == 0).all()


# -- Fourier magnitudes ---------------------------------------------------------------------------


def test_fourier_magnitudes_agree_with_the_definition(images: np.ndarray) -> None:
    K, h, w = 2, 9, 9
    pairs = [(p, 0) for p in range(K + 1)]
    pairs += [(p, q) for q in range(1, K + 1) for p in (*range(K + 1), *range(-K, 0))]
    expected = [
        [
            abs(
                sum(
                    image[y, x] * cmath.exp(-2j * cmath.pi * (p * y / h + q * x / w))
                    for y in range(h)
                    for x in range(w)
                )
            )
            / (h * w)
            for p, q in pairs
        ]
        for image in images
    ]
    result = descriptors.fourier_magnitudes(images, n_frequencies=K, log=False)
    assert result.shape == (3, 1 + 2 * K * (K + 1))
    np.testing.assert_allclose(result, expected, atol=1e-12)
    in_logs = descriptors.fourier_magnitudes(images, n_frequencies=K)
    np.testing.assert_allclose(in_logs, np.log(1 + h * w * np.array(expected)), atol=1e-12)


def test_a_wave_has_one_frequency() -> None:
    wave = np.cos(2 * np.pi * 2 * np.arange(8) / 8)[None, :, None].repeat(10, axis=2)
    expected = np.zeros(25)
    expected[2] = 0.5  # p = 2, q = 0
    result = descriptors.fourier_magnitudes(wave, n_frequencies=3, log=False)[0]
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize("shift", [(0, 1), (3, -2), (5, 4)])
def test_fourier_magnitudes_are_blind_to_circular_shifts(
    images: np.ndarray, shift: tuple[int, int]
) -> None:
    shifted = np.roll(images, shift, axis=(1, 2))
    np.testing.assert_allclose(
        descriptors.fourier_magnitudes(shifted), descriptors.fourier_magnitudes(images), atol=1e-10
    )


def test_zero_frequencies_leave_the_mean(images: np.ndarray) -> None:
    result = descriptors.fourier_magnitudes(images, n_frequencies=0, log=False)
    np.testing.assert_allclose(result[:, 0], images.mean(axis=(1, 2)))


# -- Zernike moments ------------------------------------------------------------------------------


def test_pairs_of_zernike_polynomials() -> None:
    assert descriptors.zernike_indices(3) == [(0, 0), (1, 1), (2, 0), (2, 2), (3, 1), (3, 3)]


@pytest.mark.parametrize(
    ("n", "m", "polynomial"),
    [
        (0, 0, lambda r: 1),
        (1, 1, lambda r: r),
        (2, 0, lambda r: 2 * r**2 - 1),
        (3, 1, lambda r: 3 * r**3 - 2 * r),
        (4, 0, lambda r: 6 * r**4 - 6 * r**2 + 1),
        (4, 2, lambda r: 4 * r**4 - 3 * r**2),
        (5, 1, lambda r: 10 * r**5 - 12 * r**3 + 3 * r),
        (6, 6, lambda r: r**6),
    ],
)
def test_radial_polynomials_written_out(n: int, m: int, polynomial) -> None:
    r = np.linspace(0, 1, 11)
    np.testing.assert_allclose(
        descriptors.zernike_radial(n, m, r), polynomial(r) * np.ones(11), atol=1e-12
    )


@pytest.mark.parametrize("n", range(0, 31, 5))
def test_radial_polynomials_end_at_one(n: int) -> None:
    for m in range(n % 2, n + 1, 2):
        assert descriptors.zernike_radial(n, m, 1.0) == pytest.approx(1, abs=1e-5)


def test_zernike_moments_agree_with_a_slow_reference() -> None:
    images = np.random.default_rng(0).uniform(size=(2, 5, 7))
    diagonal = math.hypot(5, 7)
    expected = np.zeros((2, 9))
    for i, image in enumerate(images):
        for j, (n, m) in enumerate(descriptors.zernike_indices(4)):
            total = 0j
            for y in range(5):
                for x in range(7):
                    point = complex(2 * x + 1 - 7, 2 * y + 1 - 5) / diagonal
                    kernel = descriptors.zernike_radial(n, m, abs(point)) * cmath.exp(
                        -1j * m * cmath.phase(point)
                    )
                    total += image[y, x] * complex(kernel)
            expected[i, j] = abs(total) * (n + 1) / math.pi * (2 / diagonal) ** 2
    np.testing.assert_allclose(
        descriptors.zernike_moments(images, order=4), expected, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_zernike_magnitudes_are_blind_to_quarter_turns(images: np.ndarray, turns: int) -> None:
    turned = np.rot90(images, turns, axes=(1, 2))
    np.testing.assert_allclose(
        descriptors.zernike_moments(turned), descriptors.zernike_moments(images), atol=1e-10
    )


def test_zernike_magnitudes_tell_other_images_apart(images: np.ndarray) -> None:
    moments = descriptors.zernike_moments(images, order=6)
    assert moments.shape == (3, 16)
    assert np.abs(moments[0] - moments[1]).max() > 0.01


# -- profiles and local patterns ------------------------------------------------------------------


def test_profiles_by_hand() -> None:
    image = [[0, 0, 8, 0], [0, 4, 5, 0], [0, 0, 0, 0]]
    expected = [
        *(2, 9 / 4, 0),  # rows
        *(0, 4 / 3, 13 / 3, 0),  # columns
        *(2 / 4, 2 / 4, 1),  # left: 4 is not above half of 8
        *(1 / 4, 1 / 4, 1),  # right
        *(1, 1, 0, 1),  # top
        *(1, 1, 1 / 3, 1),  # bottom
    ]
    np.testing.assert_allclose(descriptors.profiles([image]), [expected])
    lower = descriptors.profiles([image], threshold=0.49)[0]
    assert lower[8] == 1 / 4


def test_profiles_of_an_empty_image() -> None:
    assert descriptors.profiles(np.zeros((1, 2, 3))).tolist() == [[0.0] * 5 + [1.0] * 10]


def slow_pattern(patch: np.ndarray) -> int:
    ring = [patch[0, 0], patch[0, 1], patch[0, 2], patch[1, 2]]
    ring += [patch[2, 2], patch[2, 1], patch[2, 0], patch[1, 0]]
    bits = [int(value >= patch[1, 1]) for value in ring]
    changes = sum(bits[i] != bits[i - 1] for i in range(8))
    return sum(bits) if changes <= 2 else 9


def test_local_patterns_agree_with_a_slow_reference() -> None:
    images = np.random.default_rng(0).integers(0, 6, size=(4, 7, 6))
    expected = np.zeros((4, 10))
    for i, image in enumerate(images):
        for y in range(5):
            for x in range(4):
                expected[i, slow_pattern(image[y : y + 3, x : x + 3])] += 1 / 20
    np.testing.assert_allclose(descriptors.local_binary_patterns(images), expected, atol=1e-12)


def test_local_patterns_of_a_flat_image_and_of_a_peak() -> None:
    flat, peak = np.ones((3, 3)), np.zeros((3, 3))
    peak[1, 1] = 1
    result = descriptors.local_binary_patterns([flat, peak])
    assert result.argmax(axis=1).tolist() == [8, 0]


def test_local_patterns_are_blind_to_quarter_turns_and_to_contrast(images: np.ndarray) -> None:
    plain = descriptors.local_binary_patterns(images)
    turned = descriptors.local_binary_patterns(np.rot90(images, axes=(1, 2)))
    np.testing.assert_allclose(turned, plain, atol=1e-12)
    np.testing.assert_array_equal(descriptors.local_binary_patterns(images**3 + 2), plain)


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "describe",
    [
        descriptors.pixels,
        descriptors.oriented_gradients,
        descriptors.fourier_magnitudes,
        descriptors.zernike_moments,
        descriptors.profiles,
        descriptors.local_binary_patterns,
    ],
)
@pytest.mark.parametrize("shape", [(4, 4), (0, 4, 4), (2, 4, 4, 1)])
def test_other_shapes_are_refused(describe, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="a stack of grey images"):
        describe(np.zeros(shape))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: descriptors.oriented_gradients(x[:, :1]), DataError, "1 × 4 pixels"),
        (lambda x: descriptors.oriented_gradients(x, cells=(5, 1)), SettingError, "5 × 1 cells"),
        (lambda x: descriptors.oriented_gradients(x, n_bins=1), SettingError, "1 orientation"),
        (lambda x: descriptors.fourier_magnitudes(x, n_frequencies=2), SettingError, "0 to 1"),
        (lambda x: descriptors.zernike_moments(x, order=-1), SettingError, "order is -1"),
        (lambda x: descriptors.profiles(x, threshold=1.0), SettingError, "threshold is 1.0"),
        (lambda x: descriptors.local_binary_patterns(x[:, :2]), DataError, "2 × 4 pixels"),
    ],
)
def test_settings_that_do_not_fit(call, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(np.ones((1, 4, 4)))
