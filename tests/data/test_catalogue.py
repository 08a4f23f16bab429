import numpy as np
import pytest
import torch

from moca import parts
from moca.data import catalogue
from moca.errors import MocaError
from moca.models import build_model
from moca.settings import Run, validate
from moca.settings.choice import choice_of
from moca.settings.heads import Cosine

PICTURED = ("cifar10", "cifar100", "tinyimagenet", "miniimagenet", "mnist", "fashion_mnist")


@pytest.mark.parametrize("name", catalogue.names())
def test_every_known_set_is_consistent(name):
    known = catalogue.known(name)
    classes = len(known.classes)
    assert len(set(known.classes)) == classes
    assert all(len(counts) == classes for counts in known.counts)
    for order in known.orders.values():
        assert sorted(order) == list(range(classes))
    for protocol in known.protocols.values():
        assert sum(protocol.tasks) == classes
        assert len(protocol.mean) == len(protocol.std) == known.shape[2]
        assert protocol.class_order == "natural" or protocol.class_order in known.orders
    for item in known.downloads:
        algorithm, _, digest = item.checksum.partition(":")
        assert len(digest) == {"md5": 32, "sha256": 64}[algorithm] and item.size > 0


@pytest.mark.parametrize("name", PICTURED)
def test_references_ship_for_the_papers_sets(name):
    known, reference = catalogue.known(name), catalogue.known(name).reference()
    assert reference is not None and len(reference.fingerprint) == 64
    assert len(reference.tags) == sum(map(sum, known.counts))
    for _, labels, tags in reference.splits():
        assert all((np.diff(tags[labels == c].astype(np.int64)) >= 0).all() for c in range(len(known.classes)))


def test_task_splits_of_the_three_settings():
    hundred, tiny = catalogue.known("cifar100"), catalogue.known("tinyimagenet")
    assert catalogue.known("cifar10").protocols["offline"].tasks == (2,) * 5
    assert hundred.protocols["offline"].tasks == (20,) * 5
    assert hundred.protocols["online"].tasks == (5,) * 20
    assert hundred.protocols["proxy"].tasks == (50,) + (5,) * 10
    assert hundred.protocols["proxy5"].tasks == (50,) + (10,) * 5
    assert hundred.protocols["proxy20"].tasks == (40,) + (3,) * 20
    assert tiny.protocols["offline"].tasks == (20,) * 10
    assert tiny.protocols["proxy"].tasks == (100,) + (10,) * 10
    assert next(iter(hundred.protocols)) == "offline"


def test_online_pixels_run_from_minus_one_to_one_without_augmentation():
    protocol = catalogue.known("cifar100").protocols["online"]
    assert [(p - m) / s for p, m, s in zip((0, 1, 0.5), protocol.mean, protocol.std, strict=True)] == [-1, 1, 0]
    assert protocol.crop_padding == 0 and not protocol.flip


@pytest.mark.parametrize("protocol", ["online", "online_augmented"])
@pytest.mark.parametrize(("name", "features"), [("cifar10", 160), ("cifar100", 160), ("miniimagenet", 640)])
def test_the_online_backbone_is_narrow_and_keeps_a_map_of_large_images(name, features, protocol):
    known = catalogue.known(name)
    chosen = choice_of(parts.ENCODERS, known.protocols[protocol].recipe["model"])
    height, width, channels = known.shape
    model = build_model(chosen, Cosine(), (channels, height, width), len(known.classes), seed=0)
    assert model.encode(torch.zeros(1, channels, height, width)).shape == (1, features)
    assert "offline" not in known.protocols or known.protocols["offline"].recipe["model"] == "resnet18"


@pytest.mark.parametrize("name", catalogue.names())
def test_every_recipe_is_made_of_settings_that_a_run_takes(name):
    for protocol in catalogue.known(name).protocols.values():
        assert validate(Run, dict(protocol.recipe)).epochs == protocol.recipe["epochs"]


def test_the_offline_recipe_is_the_papers():
    recipe = catalogue.known("cifar100").protocols["offline"].recipe
    assert recipe == {
        "model": "resnet18",
        "epochs": 50,
        "batch": 32,
        "lr": 0.1,
        "head": "cosine",
        "memory": 500,
        "schedule": "steps:at=35,45",
    }
    assert catalogue.known("tinyimagenet").protocols["offline"].recipe["epochs"] == 100
    assert "schedule" not in catalogue.known("cifar10").protocols["offline"].recipe


@pytest.mark.parametrize(("name", "count"), [("cifar100", 100), ("tinyimagenet", 200)])
def test_pass_orders_are_numpys_with_seed_1993(name, count):
    expected = np.random.RandomState(1993).permutation(count)
    assert catalogue.known(name).orders["pass"] == tuple(expected.tolist())


def test_tiny_imagenet_begins_and_ends_as_in_wnids_txt():
    tiny = catalogue.known("tinyimagenet")
    first = [tiny.classes[c] for c in tiny.orders["wnids"][:4]]
    assert first == ["n02124075", "n04067472", "n04540053", "n04099969"]
    assert list(tiny.classes) == sorted(tiny.classes)
    assert tiny.protocols["offline"].class_order == "wnids"


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(MocaError, match=r"unknown data set 'cifar_10'; did you mean 'cifar10'"):
        catalogue.known("cifar_10")
