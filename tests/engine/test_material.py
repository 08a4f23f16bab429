"""What runs of one comparison are made of: whatever can be the same for several of them is made once."""

import torch

from moca.data.progress import silent
from moca.engine.intent import Intent
from moca.engine.material import Material
from moca.settings import Run, validate
from moca.streams import class_incremental


def test_samples_are_held_out_once_for_all_runs_that_hold_out_the_same(make_dataset):
    material, settings = Material(), {"data": make_dataset((20, 20)), "tasks": 2, "device": "cpu"}

    def stream(**others):
        return material(validate(Run, settings | others))[1]

    auto = stream(learner="er:adjust=auto")
    assert auto is stream(learner="derpp:adjust=auto", perturb="vt")
    assert auto is not stream(learner="er:adjust=auto", seed="0:data=1")
    assert stream() is stream(learner="er:adjust=1") is not auto


def test_images_of_a_stream_of_ones_own_pass_a_frozen_encoder_once(make_dataset):
    class Counting(torch.nn.Flatten):
        passed = 0

        def forward(self, x):
            Counting.passed += len(x)
            return super().forward(x)

    own, material = class_incremental(make_dataset((20, 20)), 2), Material()
    settings = {"data": own, "frozen": Counting(), "model": "identity", "device": "cpu"}
    for learner in ("er", "er:adjust=auto", "derpp"):
        _, stream = material(validate(Run, settings | {"learner": learner}))
        assert stream.shape == (16, 1, 1)
    assert Counting.passed <= len(own.train) + len(own.test) + 4, "a few to see what comes out"


def test_runs_that_choose_have_the_images_of_those_chosen(make_dataset, tmp_path):
    data, settings = make_dataset((20, 20)), {"tasks": 2, "lr": [0.1, 0.2], "device": "cpu"}
    pair = (data.train.images.numpy(), data.train.labels.numpy())
    intent = Intent.of(settings | {"data": pair}, [0], 0.1, tmp_path, silent)
    first, *others = (p.stream.train.images for p in (*intent.plans, *intent.held_out))
    assert len(others) == 3 and all(images is first for images in others)
