"""Accuracy on every task, among all classes and among those of the task."""

import copy

import pytest
import torch

from moca import class_incremental
from moca.engine import evaluate as evaluation
from moca.engine.evaluate import evaluate, in_evaluation


@pytest.fixture
def trained(make_trainer):
    trainer = make_trainer((8, 8, 9, 8), epochs=3)
    list(trainer.steps())
    return trainer


def slow_accuracies(model, stream):
    """One image at a time, with a copy of the model in evaluation mode."""
    model = copy.deepcopy(model).eval()
    class_il, task_il = [], []
    for task in stream:
        right = right_within = 0
        for i in task.test.tolist():
            x = (stream.test.images[i] / 255 - 0.3) / 0.25
            logits = model(x.unsqueeze(0))[0].tolist()
            y = stream.test.labels[i].item()
            right += max(range(len(logits)), key=lambda c: logits[c]) == y
            right_within += max(task.classes, key=lambda c: logits[c]) == y
        class_il.append(right / len(task.test))
        task_il.append(right_within / len(task.test))
    return class_il, task_il


@pytest.mark.parametrize("order", ["natural", (3, 1, 0, 2)])
def test_equals_a_loop_over_images(make_dataset, make_trainer, order):
    dataset = make_dataset((8, 8, 9, 8), test_counts=(20, 10, 15, 25), crop_padding=1, flip=True)
    stream = class_incremental(dataset, 2, order)
    trainer = make_trainer(stream=stream, epochs=3)
    list(trainer.steps())
    measured = evaluate(trainer.learning.model, trainer.learning.predict, stream)
    class_il, task_il = slow_accuracies(trainer.learning.model, stream)
    assert measured.class_il == pytest.approx(class_il)
    assert measured.task_il == pytest.approx(task_il)
    assert measured.class_il[1] < measured.task_il[1], "the unseen task: all classes compete against two"


def test_as_many_numbers_as_the_stream_has_tasks_learned_or_not(trained):
    assert trained.schedule.task == 0
    assert len(evaluate(trained.learning.model, trained.learning.predict, trained.schedule.stream).class_il) == 2
    assert len(evaluate(trained.learning.model, trained.learning.predict, trained.schedule.stream[:1]).task_il) == 1


def test_a_class_never_seen_can_win(make_trainer):
    trainer = make_trainer(head="linear")
    with torch.no_grad():
        trainer.learning.model.head.bias.copy_(torch.tensor([0.0, 0.0, 1e6, 0.0]))
    measured = evaluate(trainer.learning.model, trainer.learning.predict, trainer.schedule.stream)
    assert measured.class_il == [0.0, 0.5], "everything is called class 2"
    assert measured.task_il[1] == 0.5
    assert measured.task_il[0] > 0


@pytest.mark.parametrize("training", [True, False])
def test_leaves_the_model_as_it_was(trained, training):
    trained.learning.model.train(training)
    before = copy.deepcopy(trained.learning.model.state_dict())
    evaluate(trained.learning.model, trained.learning.predict, trained.schedule.stream)
    assert all(module.training == training for module in trained.learning.model.modules())
    for name, value in trained.learning.model.state_dict().items():
        assert value.equal(before[name]), name
    assert all(p.requires_grad for p in trained.learning.model.parameters())


def test_large_test_sets_are_cut_into_batches(trained, monkeypatch):
    images, protocol = trained.schedule.stream.train.images, trained.schedule.stream.dataset.protocol
    asked = trained.learning.model, trained.learning.predict, images, torch.arange(len(images)).flip(0), protocol
    whole = in_evaluation(*asked)
    monkeypatch.setattr(evaluation, "MOST", {"cpu": 7})
    torch.testing.assert_close(in_evaluation(*asked), whole)
    assert not whole.requires_grad


def test_a_long_test_says_how_far_it_is(make_dataset, make_trainer, monkeypatch):
    monkeypatch.setattr(evaluation, "MOST", {"cpu": 20})
    trainer = make_trainer(stream=class_incremental(make_dataset((8, 8, 9, 8), test_counts=(20, 10, 15, 5)), 2))
    told = []
    evaluate(trainer.learning.model, trainer.learning.predict, trainer.schedule.stream, told.append)
    assert told == [0, 0.4, 0.8]
