"""Pictures of implicit augmentation: the search against closed forms, perturbed features against moca.perturb's."""

import json

import pytest
import torch

import moca
from moca import MocaError, sphere
from moca.cli import main
from moca.engine.folder import RunFolder
from moca.engine.result import Result
from moca.measures import analyse, implicit_augmentation
from moca.measures.implicit_augmentation import DRAWS, VARIANTS, ImplicitAugmentation, _chosen, variants_of
from moca.measures.inversion import invert
from moca.measures.pictures import pixels, sheet
from moca.random import Random

SMALL = {
    "epochs": 1,
    "batch": 100,
    "tasks": 2,
    "model": "mlp:width=16,features=8",
    "memory": 20,
    "device": "cpu",
    "threads": 1,
}


def test_a_linear_generator_is_inverted_exactly():
    torch.manual_seed(0)
    a, b = torch.eye(3) + 0.2 * torch.randn(3, 3), torch.eye(3) + 0.2 * torch.randn(3, 3)
    wanted = torch.randn(5, 3) * 0.3
    searched = invert(lambda z: z @ a.T, lambda x: x @ b.T, torch.zeros(5, 3), wanted, steps=400)
    torch.testing.assert_close(searched, torch.linalg.solve(b @ a, wanted.T).T, atol=1e-3, rtol=1e-3)


def test_with_an_image_wanted_it_is_the_mean_of_both():
    """One pixel moves freely and is its own feature: both terms are squares of equal weight where both are as long."""
    feature, image = torch.tensor([[1.0, -1.0]]), torch.tensor([[-1.0, 1.0]])
    start = torch.tensor([[0.3, 0.2]])
    found = invert(lambda z: z, lambda x: x, start, feature, image, steps=300)
    torch.testing.assert_close(found, torch.zeros(1, 2), atol=1e-3, rtol=0)


def test_the_search_never_ends_worse_than_it_began():
    at = torch.tensor([[0.5, 0.5]])
    torch.testing.assert_close(invert(lambda z: z, lambda x: x, at, at.clone(), steps=5), at)


def test_a_sheet_is_read_as_it_was_written():
    cells = torch.linspace(-1, 1, 2 * 3 * 3 * 4 * 5).view(2, 3, 3, 4, 5)
    read = pixels(sheet(cells))
    assert read.shape == (2 * 5, 3 * 6, 4)
    cell = torch.from_numpy(read[5:9, 6:11, :3].copy()).permute(2, 0, 1)
    torch.testing.assert_close(cell.float() / 127.5 - 1, cells[1, 1], atol=0.005, rtol=0)
    assert (read[4::5, :, 3] == 0).all()
    assert (read[5:9, 6:11, 3] == 255).all()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("run") / "er"
    moca.run(**SMALL, perturb="gaussian:lambda=0.7", out=place)
    return place


@pytest.fixture(scope="module")
def found(run):
    ended = analyse.EndedRun(RunFolder.open(run), Result.load(run), "cpu")
    return ImplicitAugmentation(ended.learning, ended.material[1])


def test_shown_are_images_of_the_memory_of_old_classes(found):
    memory = found.learning.memory.all()
    assert set(found.shown.labels.tolist()) <= {0, 1, 2, 3, 4}
    for image, y in zip(found.shown.images, found.shown.labels, strict=True):
        assert any(torch.equal(image, kept) and y == c for kept, c in zip(memory["image"], memory["y"], strict=True))


def test_classes_are_those_named_or_from_the_first_to_the_last_that_is_held():
    old = {name: c for c, name in enumerate("abcdef")}
    assert _chosen(old, {0, 1, 2, 3, 5, 7}, ()) == [0, 2, 5]
    assert _chosen(old, {4}, ()) == [4]
    assert _chosen(old, {0, 1, 3}, ("d", "a")) == [3, 0]
    with pytest.raises(MocaError, match="the memory holds no image of class 'e'; it has a, b"):
        _chosen(old, {1, 0, 7}, ("a", "e"))


def test_perturbed_features_are_those_of_the_perturbation(found):
    variants = variants_of(found.learning, found.stream.dataset)
    assert tuple(variants) == VARIANTS
    assert [variants["gaussian"].lam, variants["wap"].lam] == [0.7, 0.5]  # the run's own, the recipe of digits
    h, d = found.features(found.shown), 8
    moved = found.perturbed(variants["gaussian"], draws=2)
    noise = Random(found.learning.settings.seed.of("perturb"), "perturb")
    noise.normal(1, d)  # of the call before the draws
    rows = len(h) + len(found.replayed)  # all that the memory holds, since a replay batch has room for more
    for draw in moved:
        torch.testing.assert_close(draw, sphere.displace(h, noise.normal(rows, d)[: len(h)], 0.7))


def test_every_variant_turns_and_keeps_the_length(found):
    h = found.features(found.shown)
    for name, perturb in variants_of(found.learning, found.stream.dataset).items():
        moved = found.perturbed(perturb, draws=2)
        torch.testing.assert_close(sphere.norm(moved), sphere.norm(h).expand(2, -1, -1), rtol=1e-4, atol=1e-4)
        assert (sphere.angle(moved, h.expand_as(moved)) > 1e-3).all(), name
        assert not torch.equal(moved[0], moved[1]), name


def test_the_commands(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MOCA_DATA", str(tmp_path))
    monkeypatch.setattr(implicit_augmentation, "STEPS", 2)

    def said(*words):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words)])
        assert ended.value.code == 0
        return " ".join(capsys.readouterr().out.split())

    assert "generator of digits is ready" in said("data", "generator", "digits", "--steps", 2, "--device", "cpu")
    words = ("analyse", run, "--only", "implicit_augmentation", "--device", "cpu", "--out", tmp_path)
    told = said(*words, "--classes", "1", "3")
    assert "missed by (degrees)" in told and told.count("wap") == 1, "a row of the grid"
    assert (tmp_path / "implicit_augmentation.pdf").stat().st_size > 1000
    plot = json.loads((run / "analysis.json").read_text())["analyses"]["implicit_augmentation"]["plots"]
    assert list(plot["implicit_augmentation"]["series"]) == ["1", "3"]
    shape = pixels(plot["implicit_augmentation"]["series"]["3"]).shape
    assert shape == (9 * len(VARIANTS), 9 * (2 + DRAWS), 4)
    there = pixels(plot["implicit_augmentation"]["series"]["3"])[::9, ::9, 3] == 255
    assert there.sum() == len(VARIANTS) * DRAWS + 2, "the image and what it was rebuilt as are shown once"
    said("report", run, "--out", tmp_path / "page.html")
    assert plot["implicit_augmentation"]["series"]["3"] in (tmp_path / "page.html").read_text()
    assert "implicit_augmentation" in moca.analyse(run, again=True, device="cpu").analyses


def test_prototypes_without_images_rule_some_out(found, monkeypatch):
    monkeypatch.setattr(found.learning.learner, "replays_images", False)
    assert tuple(variants_of(found.learning, found.stream.dataset)) == ("gaussian", "vmf", "doa_new", "vt")
