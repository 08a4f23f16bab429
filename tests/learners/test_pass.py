"""PASS: rotations as classes, prototypes instead of samples, a radius from the base classes."""

import pytest
import torch

from moca.batch import Batch
from moca.data import Transform
from moca.errors import MocaError
from moca.learners.pass_ import PASS
from moca.settings import Run, validate
from tests.learners.conftest import task


def test_an_image_is_seen_in_four_rotations_and_each_is_a_class(make_trainer):
    learner = make_trainer(learner="pass", lr=0.001).learning.learner
    x = torch.arange(2 * 3 * 4 * 4.0).view(2, 3, 4, 4)
    seen = learner.see(Batch(x=x, y=torch.tensor([2, 0])))
    assert seen.y.tolist() == [8, 0, 9, 1, 10, 2, 11, 3]
    top_row_of_the_first = x[0, :, 0]
    assert seen.x[0, :, 0].equal(top_row_of_the_first)
    assert seen.x[2, :, :, 0].flip(1).equal(top_row_of_the_first), "a quarter against the clock: the top is left"
    assert seen.x[4, :, 3].flip(1).equal(top_row_of_the_first), "a half: the top is below"
    assert seen.x[6, :, :, 3].equal(top_row_of_the_first), "three quarters: the top is right"


def test_images_that_are_not_square_are_refused_in_one_line(make_trainer):
    learner = make_trainer(learner="pass").learning.learner
    with pytest.raises(MocaError, match="must be square; use pass:rotations=false"):
        learner.see(Batch(x=torch.zeros(2, 3, 4, 5), y=torch.tensor([0, 1])))


def test_four_outputs_a_class_of_which_the_first_counts(make_trainer):
    trainer = make_trainer(learner="pass")
    learning = trainer.learning
    assert len(learning.model.head.weight) == 4 * 4
    x = torch.randn(5, *trainer.schedule.stream.shape)
    learning.model.eval()
    scores = learning.predict(x)
    torch.testing.assert_close(
        scores[:, :2], learning.model(x)[:, [0, 4]] / 0.1, msg="at the temperature it learns with"
    )
    assert scores[:, 2:].eq(-torch.inf).all(), "classes that have not come cannot be predicted"


def test_prototypes_are_class_means_and_the_radius_is_that_of_the_base_classes(make_trainer, train):
    """Of features that nothing augments; trace(Cov) / d, the mean over the classes of the first task."""
    trainer = make_trainer(learner="pass", augment=False, lr=0.001)
    learning, stream = trainer.learning, trainer.schedule.stream
    list(trainer.steps())
    trainer.end_task()
    learning.model.eval()
    variances = []
    for c in (0, 1):
        images = stream.train.images[stream.train.labels == c]
        h = learning.model.encode(Transform.plain(stream.protocol, learning.device)(images)).detach()
        torch.testing.assert_close(learning.learner.means[c], h.mean(0))
        variances.append(h.var(0, correction=1).mean())
    torch.testing.assert_close(learning.learner.radius, torch.stack(variances).mean().sqrt())
    assert learning.learner.means[2:].eq(0).all()

    before = learning.learner.means.clone(), learning.learner.radius.clone()
    trainer.next_task()
    list(trainer.steps())
    trainer.end_task()
    assert learning.learner.means[:2].equal(before[0][:2]), "prototypes stay as they were"
    assert learning.learner.means[2:].ne(0).any(1).all()
    assert learning.learner.radius.equal(before[1])


def test_a_class_that_comes_again_keeps_its_prototype(attached):
    """One of which no sample came has none, and no part in the radius: variances 2 and 8 have the mean 5."""
    learner = attached(PASS(rotations=False), (0, 1, 5))
    learner.end_task(Batch(image=torch.tensor([[0], [5], [2], [9]]).expand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    assert learner.means[:, 0].tolist() == [1, 7, 0, 0, 0, 0]
    assert learner.radius.item() == pytest.approx(5**0.5)
    learner.begin_task(task(1, 2))
    learner.end_task(Batch(image=torch.tensor([[100], [4]]).expand(2, 3), y=torch.tensor([1, 2])))
    assert learner.means[:, 0].tolist() == [1, 7, 4, 0, 0, 0]
    assert learner.radius.item() == pytest.approx(5**0.5)


def test_features_that_are_all_but_the_same_have_no_radius(attached):
    """Their sum of squares less that of the mean is next to nothing, and by rounding sometimes below it."""
    learner = attached(PASS(rotations=False), (0,))
    for value in torch.linspace(1, 2, 100):
        images = torch.full((1000, 3), value.item())
        images[0] = torch.nextafter(value, torch.tensor(3.0))
        learner.end_task(Batch(image=images, y=torch.zeros(1000, dtype=torch.int64)))
        assert learner.radius.item() == pytest.approx(0, abs=1e-6)


def test_without_a_perturbation_prototypes_get_noise_of_the_radius(make_trainer):
    trainer = make_trainer(learner="pass", lr=0.001)
    list(trainer.steps())
    trainer.end_task()
    trainer.next_task()
    learner = trainer.learning.learner
    drawn = learner._drawn(20_000)
    assert set(drawn.y.tolist()) == {0, 1}
    assert drawn.y.double().mean() == pytest.approx(0.5, abs=0.02)
    noise = learner._moved(drawn, None) - drawn.features
    assert noise.std().item() == pytest.approx(learner.radius.item(), rel=0.02)
    assert noise.mean().item() == pytest.approx(0, abs=0.02 * learner.radius.item())


def test_classes_that_waited_start_with_fresh_rows(make_trainer):
    """Adam turns weight decay into steps of full length, whatever the gradient."""
    trainer = make_trainer(learner="pass", head="linear", optimiser="adam:weight_decay=0.1", lr=0.01)
    weight = trainer.learning.model.head.weight
    at_first = weight.detach().clone()
    list(trainer.steps())
    trainer.end_task()
    assert not weight[8:].equal(at_first[8:])
    learnt = weight.detach().clone()
    trainer.next_task()
    assert weight[8:].equal(at_first[8:])
    assert weight[:8].equal(learnt[:8])


@pytest.mark.parametrize("learner", ["pass", "proxy"])
@pytest.mark.parametrize(("perturb", "why"), [("wap", "other weights"), ("doa_old", "old samples' own features")])
def test_perturbations_that_need_the_old_images_are_refused_with_the_reason(learner, perturb, why):
    with pytest.raises(MocaError, match=f"'{learner}' cannot take '{perturb}': .*{why}.*prototypes have no images"):
        validate(Run, {"learner": learner, "perturb": perturb})


def test_a_head_whose_vectors_are_fixed_has_no_rows_to_renew(make_trainer):
    trainer = make_trainer(learner="pass", head="simplex")
    list(trainer.steps())
    trainer.end_task()
    trainer.next_task()
    assert all(torch.isfinite(loss) for step in trainer.steps() for loss in step.losses.values())


def test_no_samples_are_kept(make_trainer):
    assert make_trainer(learner="pass", memory=0).learning.memory is None
