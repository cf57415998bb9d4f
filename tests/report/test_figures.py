"""Pictures: everything that they must show is there, and the same run gives the same bytes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from dwcl.errors import FileError, ModelError
from dwcl.report.figures import (
    COLOURS,
    MAP_SAMPLES,
    draw_losses,
    draw_map,
    draw_quality,
    plane,
    save_summary,
    shorten,
    summary_figure,
)


@pytest.fixture
def axes() -> Axes:
    return Figure().add_subplot()


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the first two axes for the plane: the map is under test, not t-SNE."""
    monkeypatch.setattr("dwcl.report.figures.plane", lambda embedding, seed: embedding[:, :2])


def groups(
    n: int, k: int, width: int = 6, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    centres = 8 * rng.normal(size=(k, width))
    return (centres[labels] + rng.normal(size=(n, width))).astype(np.float32), labels


def history(views: list[str], iterations: int = 2, epochs: int = 3) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for iteration in range(iterations + 1):
        phase = f"contrast-{iteration}" if iteration else "pretrain"
        records += [
            {"event": "epoch", "phase": phase, "epoch": e, "loss": 10.0 * (iteration + 1) / e}
            for e in range(1, epochs + 1)
        ]
        quality = [0.1 * (iteration + 1) + 0.01 * v for v in range(len(views))]
        best = {"best_view": views[-1 if iteration else 0]}
        records.append({"event": "assessment", "iteration": iteration, "quality": quality, **best})
    return records


def facts(views: list[str], **others: Any) -> dict[str, Any]:
    return {
        "dwcl": "1.0",
        "method": "dwcl",
        "seed": 0,
        "n_clusters": 2,
        "data": {"source": None, "n_samples": 4, "views": dict.fromkeys(views, 3)},
        "cluster_sizes": [2, 2],
        "notes": [],
        "precision": "fp32",
        "device": "cpu",
        "threads": 1,
        "versions": {},
        "history": history(views),
        **others,
    }


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


# -- the map -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("flat")
def test_every_cluster_is_drawn_with_its_size(axes: Axes) -> None:
    embedding, labels = groups(50, 3)
    draw_map(axes, embedding, labels)
    drawn = axes.collections
    assert [len(dots.get_offsets()) for dots in drawn] == [17, 17, 16]
    for cluster, dots in enumerate(drawn):
        assert_array_equal(dots.get_offsets(), embedding[labels == cluster, :2])
        assert to_hex(dots.get_facecolor()[0]) == COLOURS[cluster].lower()  # type: ignore[index]
    assert legend_of(axes) == ["0 (17)", "1 (17)", "2 (16)"]
    assert axes.get_title() == "50 samples, 3 clusters"


@pytest.mark.usefixtures("flat")
def test_more_clusters_than_colours_differ_by_mark_and_colour(axes: Axes) -> None:
    embedding, labels = groups(90, 45)
    draw_map(axes, embedding, labels)
    looks = {
        (to_hex(dots.get_facecolor()[0]), dots.get_paths()[0].vertices.tobytes())  # type: ignore[index]
        for dots in axes.collections
    }
    assert len(looks) == 45
    assert legend_of(axes) == [f"{cluster} (2)" for cluster in range(45)]


@pytest.mark.usefixtures("flat")
def test_of_many_samples_a_seeded_part_is_shown_and_the_sizes_are_of_all() -> None:
    n = MAP_SAMPLES + 500
    embedding, labels = groups(n, 4)

    def drawn(seed: int) -> tuple[bytes, int, list[str]]:
        axes = Figure().add_subplot()
        draw_map(axes, embedding, labels, seed=seed)
        dots = [np.asarray(part.get_offsets()) for part in axes.collections]
        return np.concatenate(dots).tobytes(), sum(map(len, dots)), legend_of(axes)

    first, number, sizes = drawn(0)
    assert number == MAP_SAMPLES
    assert sizes == [f"{cluster} ({n // 4})" for cluster in range(4)]
    assert drawn(0)[0] == first
    assert drawn(1)[0] != first


def test_the_plane_keeps_groups_together() -> None:
    embedding, labels = groups(60, 3)
    points = plane(embedding, seed=0)
    assert points.shape == (60, 2)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert_array_equal(labels[distances.argmin(axis=1)], labels)


def test_the_plane_of_wide_embeddings_goes_by_their_main_axes() -> None:
    embedding, labels = groups(70, 2, width=200)
    points = plane(embedding, seed=0)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert_array_equal(labels[distances.argmin(axis=1)], labels)


@pytest.mark.parametrize("n", [2, 3, 5, 49])
def test_the_plane_of_few_samples(n: int) -> None:
    points = plane(groups(n, 2, width=60)[0], seed=0)
    assert points.shape == (n, 2)
    assert np.isfinite(points).all()
    assert len(np.unique(points, axis=0)) == n


def test_the_plane_of_samples_that_are_all_alike_or_on_one_axis() -> None:
    assert_array_equal(plane(np.full((5, 4), 2, np.float32)), [[2, 0]] * 5)
    assert_array_equal(plane(np.array([[1], [4]], np.float32)), [[1, 0], [4, 0]])


# -- quality and losses ------------------------------------------------------------------------


def test_the_quality_of_each_view_is_a_line_and_the_best_is_ringed(axes: Axes) -> None:
    views = ["a", "b", "c"]
    draw_quality(axes, views, [r for r in history(views) if r["event"] == "assessment"])
    *lines, rings = axes.get_lines()
    assert [line.get_label() for line in lines] == views == legend_of(axes)
    assert_array_equal(lines[1].get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(lines[1].get_ydata(), [0.11, 0.21, 0.31])
    np.testing.assert_allclose(rings.get_ydata(), [0.1, 0.22, 0.32])  # a, then c, c


def test_negative_qualities_and_their_rings_are_inside(axes: Axes) -> None:
    records = [{"iteration": i, "quality": [-0.2, -0.1], "best_view": "b"} for i in (0, 1)]
    draw_quality(axes, ["a", "b"], records)
    low, high = axes.get_ylim()
    assert low < -0.2
    assert high > -0.1


def test_losses_go_on_where_the_phase_before_ended(axes: Axes) -> None:
    draw_losses(axes, [r for r in history(["a"]) if r["event"] == "epoch"])
    lines = axes.get_lines()
    assert legend_of(axes) == ["pretrain", "contrast-1", "contrast-2"]
    assert [list(line.get_xdata()) for line in lines] == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]  # type: ignore[arg-type]
    np.testing.assert_allclose(lines[1].get_ydata(), [20, 10, 20 / 3])
    assert axes.get_yscale() == "log"


def test_negative_losses_are_shown_as_they_are(axes: Axes) -> None:
    draw_losses(axes, [{"phase": "contrast", "loss": loss} for loss in (-70.0, -92.0)])
    assert axes.get_yscale() == "linear"
    low, high = axes.get_ylim()
    assert low < -92 < -70 < high


def test_long_names_are_cut_in_the_middle(axes: Axes) -> None:
    assert shorten("gene expression") == "gene expression"
    assert shorten("abcdefghij", 7) == "abc…hij"
    assert len(shorten("x" * 100)) <= 24
    name = "normalised expression of the liver, part 1"
    draw_quality(axes, [name], [{"iteration": 0, "quality": [0.5], "best_view": name}])
    assert legend_of(axes) == ["normalised …ver, part 1"]


# -- the sheet ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("flat")
@pytest.mark.parametrize(("k", "n_views"), [(2, 1), (20, 12)])
def test_nothing_on_the_sheet_is_cut_off_or_overlaps(k: int, n_views: int) -> None:
    embedding, labels = groups(60, k)
    views = [f"a view with a rather long name {i}" for i in range(n_views)]
    figure = summary_figure(embedding, labels, facts(views))
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    for box in boxes:
        assert box is not None
        assert box.x0 >= figure.bbox.x0
        assert box.x1 <= figure.bbox.x1
        assert box.y0 >= figure.bbox.y0 - 1
        assert box.y1 <= figure.bbox.y1
    map_, quality, losses = boxes
    assert not map_.overlaps(quality)
    assert not map_.overlaps(losses)
    assert not quality.overlaps(losses)


@pytest.mark.usefixtures("flat")
def test_what_a_run_does_not_have_is_left_out() -> None:
    embedding, labels = groups(20, 2)
    sheet = summary_figure(embedding, labels, {**facts(["a"]), "history": []})
    assert [axes.get_visible() for axes in sheet.axes] == [True, False, False]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    stated = facts(["a", "b"])
    lines = [json.dumps(record) + "\n" for record in stated.pop("history")]
    (folder / "run.json").write_text(json.dumps(stated))
    (folder / "history.jsonl").write_text("".join(lines))
    return folder


def test_the_picture_is_a_png_of_its_size_and_the_same_each_time(run: Path) -> None:
    embedding, labels = groups(60, 3)
    first = save_summary(run / "one.png", embedding, labels, run)
    assert first == run / "one.png"
    content = first.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (1650, 900)
    from matplotlib.image import imread

    pixels = imread(first)[..., :3]
    assert len(np.unique((pixels * 255).astype(np.uint8).reshape(-1, 3), axis=0)) > 20
    assert save_summary(run / "two.png", embedding, labels, run).read_bytes() == content
    assert sorted(path.name for path in run.iterdir()) == [
        "history.jsonl", "one.png", "run.json", "two.png",
    ]  # fmt: skip


def test_the_ending_decides_the_format(run: Path) -> None:
    embedding, labels = groups(12, 2)
    assert save_summary(run / "a.svg", embedding, labels, run).read_bytes().startswith(b"<?xml")


def test_a_picture_needs_a_run_and_a_place(run: Path, tmp_path: Path) -> None:
    embedding, labels = groups(12, 2)
    with pytest.raises(ModelError, match="is not a run folder"):
        save_summary(tmp_path / "a.png", embedding, labels, tmp_path)
    with pytest.raises(FileError, match="Cannot write"):
        save_summary(tmp_path / "nowhere" / "a.png", embedding, labels, run)


@pytest.mark.usefixtures("flat")
@pytest.mark.parametrize(
    ("setting", "label"),
    [("silhouette", "silhouette"), ({"<function>": "my.module.compactness"}, "compactness")],
)
def test_the_axis_names_the_measure_of_quality(setting: Any, label: str) -> None:
    embedding, labels = groups(20, 2)
    sheet = summary_figure(embedding, labels, facts(["a"], settings={"quality": setting}))
    assert sheet.axes[1].get_ylabel() == label
