import numpy as np
import pytest
import torch

from moca.engine.run import build_stream
from moca.engine.trainer import Trainer
from moca.errors import MocaError
from moca.report.features import feature_panel
from moca.settings import Run, validate


def trainer(**settings):
    run = validate(Run, {"tasks": 2, "model": "mlp:features=2", "threads": 1} | settings)
    return Trainer(run, build_stream(run))


def test_panel_holds_every_test_image_and_the_first_five_classes_are_old():
    made = trainer()
    panel = feature_panel(made, "er")
    assert panel.title == "er"
    assert panel.points.shape == (len(made.stream.test), 2)
    assert np.bincount(panel.labels).tolist() == torch.bincount(made.stream.test.labels).tolist()
    assert (panel.old == (panel.labels < 5)).all()
    assert panel.directions == pytest.approx(made.model.head.weight.detach().numpy())
    assert panel.names == made.stream.names


def test_points_are_the_features_of_their_images():
    made = trainer(class_order="random")
    panel = feature_panel(made, "er")
    task = made.stream[0]
    protocol = made.stream.dataset.protocol
    image = made.stream.test.images[task.test[3]].double() / 255
    x = ((image - protocol.mean[0]) / protocol.std[0]).float().unsqueeze(0)
    assert panel.points[3] == pytest.approx(made.model.encode(x)[0].detach().numpy(), abs=1e-5)
    assert panel.labels[3] == made.stream.test.labels[task.test[3]]


def test_evaluation_mode_is_used_and_left_again():
    made = trainer(model="convnet:features=2")
    made.model.train()
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    first, second = feature_panel(made, "a"), feature_panel(made, "a")
    assert made.model.training
    assert (first.points == second.points).all()
    assert all(torch.equal(value, before[name]) for name, value in made.model.state_dict().items())


def test_other_lengths_are_refused():
    with pytest.raises(MocaError, match="features of length 2, but the encoder has 64; use for example"):
        feature_panel(trainer(model="mlp"), "er")
