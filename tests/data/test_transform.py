"""The one-gather transform against a loop that pads, crops, flips and normalises image by image."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from scipy.stats import chisquare

from moca.data import Protocol, Transform
from moca.random import Random

MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)


def some_images(count, side=(6, 5), channels=3):
    generator = torch.Generator().manual_seed(count)
    return torch.randint(1, 256, (count, channels, *side), dtype=torch.uint8, generator=generator)


def slow_transform(image, padding, down, right, mirrored):
    """With PIL: pad with black, crop the original size at (down, right), mirror; then to [0, 1] and normalise."""
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    width, height = picture.size
    picture = ImageOps.expand(picture, padding, fill=0).crop((right, down, right + width, down + height))
    picture = ImageOps.mirror(picture) if mirrored else picture
    values = np.asarray(picture, dtype=np.float64) / 255
    return torch.from_numpy((values - MEAN) / STD).permute(2, 0, 1)


class Chosen:
    """Random numbers chosen by the test: (rows, columns, flip), each in (0, 1)."""

    def __init__(self, numbers):
        self.numbers, self.count = numbers, torch.zeros(())

    def uniform(self, *shape):
        return self.numbers.view(shape)


@pytest.mark.parametrize("padding", [0, 1, 4])
@pytest.mark.parametrize("flip", [False, True])
def test_every_offset_and_flip(padding, flip):
    ways = 2 * padding + 1
    grid = [(d, r, m) for d in range(ways) for r in range(ways) for m in (False, True)]
    images = some_images(len(grid))
    numbers = torch.tensor([[(d + 0.5) / ways, (r + 0.5) / ways, 0.25 if m else 0.75] for d, r, m in grid]).T
    transform = Transform(Protocol(MEAN, STD, padding, flip), Chosen(numbers))
    result = transform(images)
    assert result.shape == images.shape
    assert result.dtype == torch.float32
    for image, (down, right, mirrored), x in zip(images, grid, result, strict=True):
        expected = slow_transform(image, padding, down, right, mirrored and flip)
        torch.testing.assert_close(x.double(), expected, atol=1e-6, rtol=1e-6)


def test_offsets_and_flips_are_uniform_and_independent():
    padding, count = 1, 9000
    transform = Transform(Protocol((0.0,) * 3, (1 / 255,) * 3, padding, flip=True), Random(0, "augment"))
    image = some_images(1)
    pixels = image[0].permute(1, 2, 0).numpy()
    padded = np.pad(pixels, ((padding, padding), (padding, padding), (0, 0)))
    height, width = pixels.shape[:2]
    seen = {}
    for x in transform(image.expand(count, -1, -1, -1)).round().to(torch.uint8):
        key = x.permute(1, 2, 0).numpy().tobytes()
        seen[key] = seen.get(key, 0) + 1
    expected = set()
    for down in range(3):
        for right in range(3):
            crop = padded[down : down + height, right : right + width]
            expected |= {crop.tobytes(), crop[:, ::-1].tobytes()}
    assert set(seen) == expected
    assert len(expected) == 18
    assert chisquare(list(seen.values())).pvalue > 1e-5


def test_plain_is_only_normalisation():
    protocol = Protocol(MEAN, STD, crop_padding=4, flip=True)
    images = some_images(7)
    result = Transform.plain(protocol, torch.device("cpu"))(images)
    for image, x in zip(images, result, strict=True):
        torch.testing.assert_close(x.double(), slow_transform(image, 0, 0, 0, False), atol=1e-6, rtol=1e-6)


def test_without_augmentation_no_random_number_is_used():
    random = Random(0, "augment")
    transform = Transform(Protocol(MEAN, STD, 4, True), random, augment=False)
    images = some_images(5)
    assert transform(images).equal(Transform.plain(Protocol(MEAN, STD), torch.device("cpu"))(images))
    assert random.count == 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("augment", [False, True])
def test_images_are_never_modified(augment, channels):
    images = some_images(9, channels=channels)
    before = images.clone()
    transform = Transform(Protocol(MEAN[:channels], STD[:channels], 2, True), Random(0, "augment"), augment)
    transform(images).zero_()
    assert images.equal(before)


def test_every_call_draws_afresh_and_the_state_brings_it_back():
    images = some_images(20)
    transform = Transform(Protocol(MEAN, STD, 4, True), Random(0, "augment"))
    first = transform(images)
    state = transform.random.state_dict()
    second = transform(images)
    assert not first.equal(second)
    transform.random.load_state_dict(state)
    assert transform(images).equal(second)


def test_brightness_multiplies_each_image_and_stays_within_white():
    images = some_images(2000)
    images[:1000] //= 2  # these cannot reach white
    protocol = Protocol((0.0,) * 3, (1 / 255,) * 3, brightness=0.25)
    result = Transform(protocol, Random(0, "augment"))(images)
    factor = (result[:1000].double().sum((1, 2, 3)) / images[:1000].double().sum((1, 2, 3))).view(-1, 1, 1, 1)
    torch.testing.assert_close(result[:1000].double(), images[:1000] * factor, atol=1e-3, rtol=1e-5)
    assert 0.75 <= factor.min() < 0.76 and 1.24 < factor.max() <= 1.25
    assert result.max() <= 255.001
    torch.testing.assert_close(Transform(protocol, Random(0, "augment"), augment=False)(images), images.float())
