import numpy as np
import pytest
import torch

from moca.engine.material import Material
from moca.engine.trainer import Trainer
from moca.errors import MocaError
from moca.report.features import feature_panel
from moca.settings import Run, validate


def trainer(**settings):
    run = validate(Run, {"tasks": 2, "model": "mlp:features=2", "threads": 1} | settings)
    return Trainer(*Material()(run))


def test_panel_holds_every_test_image_and_the_first_five_classes_are_old():
    made = trainer()
    panel = feature_panel(made, "er")
    assert panel.title == "er"
    assert panel.points.shape == (len(made.schedule.stream.test), 2)
    assert np.bincount(panel.labels).tolist() == torch.bincount(made.schedule.stream.test.labels).tolist()
    assert (panel.old == (panel.labels < 5)).all()
    assert panel.directions == pytest.approx(made.learning.model.head.weight.detach().numpy())
    assert panel.names == made.schedule.stream.names


def test_points_are_the_features_of_their_images():
    made = trainer(class_order="random")
    panel = feature_panel(made, "er")
    task = made.schedule.stream[0]
    protocol = made.schedule.stream.dataset.protocol
    image = made.schedule.stream.test.images[task.test[3]].double() / 255
    x = ((image - protocol.mean[0]) / protocol.std[0]).float().unsqueeze(0)
    assert panel.points[3] == pytest.approx(made.learning.model.encode(x)[0].detach().numpy(), abs=1e-5)
    assert panel.labels[3] == made.schedule.stream.test.labels[task.test[3]]


def test_evaluation_mode_is_used_and_left_again():
    made = trainer(model="convnet:features=2")
    made.learning.model.train()
    before = {name: value.clone() for name, value in made.learning.model.state_dict().items()}
    first, second = feature_panel(made, "a"), feature_panel(made, "a")
    assert made.learning.model.training
    assert (first.points == second.points).all()
    assert all(torch.equal(value, before[name]) for name, value in made.learning.model.state_dict().items())


def test_other_lengths_are_refused():
    with pytest.raises(MocaError, match="features of length 2, but the encoder has 64; use for example"):
        feature_panel(trainer(model="mlp"), "er")
