import pytest
import torch

from moca.bench.workload import BATCHES, MEMORY, in_second_task, noise_stream, run_settings


@pytest.fixture
def make_trainer(make_settings, stream):
    return lambda method: in_second_task(run_settings(make_settings(), method, "eager"), stream)


def test_the_stream_has_cifars_shape_and_only_full_batches(stream):
    assert stream.dataset.shape == (3, 32, 32)
    assert stream.classes == 100
    assert [len(task.train) for task in stream] == [4 * BATCHES] * 5
    for number, task in enumerate(stream):
        assert set(stream.train.labels[task.train].tolist()) == set(range(20 * number, 20 * number + 20))


def test_the_stream_is_the_same_every_time(stream):
    noise_stream.cache_clear()
    again = noise_stream(4)
    assert torch.equal(again.train.images, stream.train.images)
    assert torch.equal(again.train.labels, stream.train.labels)


@pytest.mark.parametrize("method", ["er", "er+wap", "derpp", "er_ace+gaussian:lambda=1", "agem", "icarl", "xder"])
def test_the_trainer_stands_in_its_second_task_with_a_full_memory_of_the_first(make_trainer, stream, method):
    trainer = make_trainer(method)
    schedule, memory, learner = trainer.schedule, trainer.learning.memory, trainer.learning.learner
    assert (schedule.task, schedule.epoch, schedule.batch, learner.first_task) == (1, 0, 0, False)
    assert len(memory) == memory.size == MEMORY <= int(memory.count)
    if learner.store is not None:
        assert memory.offered == int(memory.count) == len(stream[0].train)
    stored = memory.all()
    assert int(stored["y"].max()) < 20
    assert bool(learner.is_old(stored["y"]).all())
    losses = next(trainer.steps()).losses
    assert all(torch.isfinite(loss) for loss in losses.values())


def test_an_epoch_has_no_short_batch_and_the_steps_go_on_after_it(make_trainer):
    trainer = make_trainer("er")
    sizes = []
    trainer.learning.step = lambda raw, y: sizes.append(len(y)) or {}
    steps = trainer.steps()
    for _ in range(BATCHES + 1):
        next(steps)
    assert set(sizes) == {4}
