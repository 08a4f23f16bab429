"""The trainer against a loop in plain PyTorch that is slow and easy to believe."""

import copy

import pytest
import torch
import torch.nn.functional as F

from moca.models import build_model
from moca.random import Random


class Twin:
    """A run written as plainly as possible: lists for the memory, a loop for SGD, losses spelled out.

    It takes from moca the network and the random numbers only.
    """

    def __init__(self, settings, stream):
        self.settings, self.stream = settings, stream
        self.model = build_model(settings.model, settings.head, stream.dataset.shape, stream.classes, 0)
        self.model.train()
        self.memory, self.offered = [], 0
        self.store, self.drawing = Random(0, "memory/store"), Random(0, "memory/draw")
        self.noise, self.augment = Random(0, "perturb"), Random(0, "augment")
        self.history, self.seen_before, self.now = [], set(), set()

    def run(self):
        s = self.settings
        for number, task in enumerate(self.stream):
            self.seen_before |= self.now
            self.now = set(task.classes)
            velocity = None
            for epoch in range(s.epochs):
                lr = s.lr
                for milestone in s.lr_milestones:
                    if epoch >= milestone:
                        lr *= s.lr_factor
                bits = Random(0, f"order/{number}/{epoch}").bits(len(task.train)).tolist()
                order = [task.train[i].item() for i in sorted(range(len(bits)), key=lambda i: bits[i])]
                while order:
                    chosen, order = order[: s.batch], order[s.batch :]
                    velocity = self.step(number, chosen, lr, velocity)
        return self

    def step(self, number, chosen, lr, velocity):
        draws = {"er": 1, "er_ace": 1, "derpp": 2, "finetune": 0}[self.settings.learner.name]
        raw, y = self.stream.train.images[chosen], self.stream.train.labels[chosen]
        x = self.transform(raw)
        replays = [self.draw() for _ in range(draws)] if self.memory else []
        h, replays = self.encode(x, replays)
        logits = self.model.head(h)
        losses = self.losses(logits, y, replays)
        gradients = torch.autograd.grad(sum(losses.values()), list(self.model.parameters()))
        with torch.no_grad():
            if velocity is None:
                velocity = [g.clone() for g in gradients]
            else:
                velocity = [self.settings.momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
            for parameter, v in zip(self.model.parameters(), velocity, strict=True):
                parameter -= lr * v
        self.history.append({name: loss.item() for name, loss in losses.items()})
        if draws:
            for row in zip(raw, y.tolist(), logits.detach(), strict=True):
                self.offer({"image": row[0], "y": row[1], "logits": row[2]})
        return velocity

    def transform(self, images):
        protocol = self.stream.dataset.protocol
        if not self.settings.augment:
            return torch.stack([(i / 255 - 0.3) / 0.25 for i in images])
        assert (protocol.crop_padding, protocol.flip) == (1, True)
        draw, result = self.augment.uniform(3, len(images)).tolist(), []
        for image, down, right, mirror in zip(images, *draw, strict=True):
            top, left, side = int(3 * down), int(3 * right), image.shape[-1]
            crop = F.pad(image, (1, 1, 1, 1))[:, top : top + side, left : left + side]
            result.append(((crop.flip(2) if mirror < 0.5 else crop) / 255 - 0.3) / 0.25)
        return torch.stack(result)

    def draw(self):
        count = self.settings.replay_batch or self.settings.batch
        tickets = self.drawing.uniform(self.settings.memory.size, dtype=torch.float64).tolist()
        slots = sorted(range(len(self.memory)), key=lambda i: -tickets[i])[:count]
        rows = [self.memory[i] for i in slots]
        return {
            "x": self.transform(torch.stack([r["image"] for r in rows])),
            "y": torch.tensor([r["y"] for r in rows]),
            "logits": torch.stack([r["logits"] for r in rows]),
        }

    def encode(self, x, replays):
        if self.settings.passes == "concatenated" and replays:
            (replay,) = replays
            h = self.model.encoder(torch.cat([x, replay["x"]]))
            replay["h"] = h[len(x) :]
            return h[: len(x)], [replay]
        h = self.model.encoder(x)
        for replay in replays:
            replay["h"] = self.model.encoder(replay["x"])
        return h, replays

    def losses(self, logits, y, replays):
        learner = self.settings.learner
        if learner.name == "er_ace" and self.seen_before:
            logits = logits.clone()
            for c in (self.seen_before | self.now) - set(y.tolist()):
                logits[:, c] = -1e30
        losses = {"new": F.cross_entropy(logits, y)}
        if not replays:
            return losses
        last = replays[-1]
        replayed = F.cross_entropy(self.model.head(self.perturbed(last)), last["y"])
        if self.settings.passes == "concatenated":
            n, m = len(y), len(last["y"])
            return {"new": n / (n + m) * losses["new"], "replay": m / (n + m) * replayed}
        if learner.name == "derpp":
            first = replays[0]
            difference = self.model.head(first["h"]) - first["logits"]
            losses["logits"] = learner.alpha * (difference**2).sum() / difference.numel()
            replayed = learner.beta * replayed
        return losses | {"replay": replayed}

    def perturbed(self, replay):
        h, lam = replay["h"], getattr(self.settings.perturb, "lam", 0)
        if not lam or not self.seen_before:
            return h
        noise, rows = self.noise.normal(*h.shape), []
        for feature, n, label in zip(h, noise, replay["y"].tolist(), strict=True):
            if label in self.seen_before:
                length = feature.norm()
                moved = feature / length + lam * n / n.norm()
                feature = length * moved / moved.norm()
            rows.append(feature)
        return torch.stack(rows)

    def offer(self, row):
        u, size = self.store.uniform(1, dtype=torch.float64).item(), self.settings.memory.size
        if len(self.memory) < size:
            self.memory.append(row)
        elif (slot := int(u * (self.offered + 1))) < size:
            self.memory[slot] = row
        self.offered += 1


METHODS = [
    {"learner": "er"},
    {"learner": "er", "perturb": "gaussian:lambda=1.5"},
    {"learner": "derpp:alpha=0.4,beta=0.8"},
    {"learner": "derpp", "perturb": "gaussian"},
    {"learner": "er_ace"},
    {"learner": "er_ace", "perturb": "gaussian"},
    {"learner": "finetune"},
    {"learner": "er", "passes": "concatenated"},
    {"learner": "er", "passes": "concatenated", "perturb": "gaussian"},
    {"learner": "er", "momentum": 0.9, "lr_milestones": (1,), "epochs": 3},
    {"learner": "er", "replay_batch": 4, "head": "linear"},
    {"learner": "er", "augment": False, "model": "mlp:width=8,depth=1,features=5"},
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: " ".join(map(str, m.values())))
def test_equals_the_plain_loop(make_trainer, train, method):
    trainer = make_trainer(**method)
    twin = Twin(trainer.settings, trainer.stream).run()
    history = train(trainer)
    assert len(history) == len(twin.history) == trainer.steps_done
    for ours, theirs in zip(history, twin.history, strict=True):
        assert ours == pytest.approx(theirs, abs=2e-6, rel=2e-6)
    for (name, ours), theirs in zip(trainer.model.state_dict().items(), twin.model.state_dict().values(), strict=True):
        if "num_batches" not in name:
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6, msg=lambda m, name=name: f"{name}: {m}")
    if trainer.memory is not None:
        stored = trainer.memory.all()
        assert stored["y"].tolist() == [row["y"] for row in twin.memory]
        assert stored["image"].equal(torch.stack([row["image"] for row in twin.memory]))
        if trainer.learner.stores_logits:
            torch.testing.assert_close(stored["logits"], torch.stack([row["logits"] for row in twin.memory]))


def test_the_twin_is_not_blind(make_trainer):
    """Every way to differ that the comparison above must notice does change the twin."""
    weights = set()
    for method in METHODS:
        trainer = make_trainer(**method)
        twin = Twin(trainer.settings, trainer.stream).run()
        weights.add(tuple(twin.model.head.weight.flatten().tolist()))
    assert len(weights) == len(METHODS)


def test_the_last_batch_is_short_and_kept(make_trainer, train):
    trainer = make_trainer(epochs=1, memory=100)
    sizes = []
    original = trainer.step
    trainer.step = lambda raw, y: sizes.append(len(y)) or original(raw, y)
    train(trainer)
    assert sizes == [6, 6, 4, 6, 6, 5]
    assert trainer.memory.offered == len(trainer.memory) == 33


@pytest.mark.parametrize("passes", ["separate", "concatenated"])
@pytest.mark.parametrize("batch", [1, 6])
def test_a_batch_of_one_sample(make_trainer, train, batch, passes):
    """Each, or the last of 13; in the last stage torch's own BatchNorm would refuse the single pixel."""
    settings = {"perturb": "vt", "model": "resnet18:width=2", "batch": batch, "passes": passes}
    history = train(make_trainer((7, 6, 7, 6), **settings))
    assert all(torch.isfinite(torch.tensor(list(losses.values()))).all() for losses in history)


def test_the_first_step_has_nothing_to_replay(make_trainer, train):
    history = train(make_trainer(learner="derpp"))
    assert set(history[0]) == {"new"}
    assert all(set(losses) == {"new", "logits", "replay"} for losses in history[1:])


@pytest.mark.parametrize("learner", ["er", "derpp", "er_ace"])
def test_every_sample_is_offered_once_an_epoch_and_images_are_counted(make_trainer, train, learner):
    trainer = make_trainer(learner=learner, epochs=3, memory=1000)
    train(trainer)
    stored = trainer.memory.all()
    assert trainer.memory.offered == 3 * 33
    times = {}
    for image in stored["image"]:
        times[bytes(image.numpy())] = times.get(bytes(image.numpy()), 0) + 1
    assert times == {bytes(image.numpy()): 3 for image in trainer.stream.train.images}
    new = 3 * 33
    # Each task has 3 batches an epoch; the memory holds 6 samples or more after the first step.
    replayed = trainer.learner.draws * 6 * (2 * 3 * 3 - 1)
    assert trainer.images_trained == new + replayed


def test_the_memory_holds_samples_of_the_current_task_while_it_lasts(make_trainer):
    trainer = make_trainer(epochs=1)
    steps = trainer.steps()
    next(steps)
    assert {y // 2 for y in trainer.memory.all()["y"].tolist()} == {0}
    list(steps)
    trainer.next_task()
    list(trainer.steps())
    assert {y // 2 for y in trainer.memory.all()["y"].tolist()} == {0, 1}


def test_stored_logits_are_those_of_insertion(make_trainer, train):
    """In training mode, of the augmented batch, before the update; never refreshed."""
    trainer = make_trainer(learner="derpp", memory=1000, epochs=1)
    seen = []
    original = trainer.learner.losses
    trainer.learner.losses = lambda new, *replays: seen.append(new.logits.detach().clone()) or original(new, *replays)
    train(trainer)
    assert trainer.memory.all()["logits"].equal(torch.cat(seen))
    assert trainer.memory.all()["logits"].shape == (33, 4)


def test_stored_images_are_raw(make_trainer, train):
    trainer = make_trainer(memory=1000, epochs=1)
    before = trainer.stream.train.images.clone()
    train(trainer)
    assert trainer.stream.train.images.equal(before)
    stored = sorted(bytes(i.numpy()) for i in trainer.memory.all()["image"])
    assert stored == sorted(bytes(i.numpy()) for i in before)


def test_only_old_rows_are_passed_as_old_and_only_from_the_second_task_on(make_trainer):
    trainer = make_trainer(perturb="gaussian")
    calls = []
    original = trainer.learner.perturbation
    trainer.learner.perturbation = lambda replay, new: calls.append((replay, new)) or original(replay, new)
    list(trainer.steps())
    assert calls == []
    trainer.next_task()
    steps = len(list(trainer.steps()))
    assert len(calls) == steps == 6
    for replay, new in calls:
        assert replay.old.tolist() == [y < 2 for y in replay.y.tolist()]
        assert set(new.y.tolist()) <= {2, 3}
    assert any(not replay.old.all() for replay, _ in calls)
    assert any(replay.old.any() for replay, _ in calls)


def test_learning_rate_milestones_start_anew_with_every_task(make_trainer, train):
    trainer = make_trainer(epochs=4, lr=0.4, lr_milestones=(1, 3), lr_factor=0.5)
    rates = []
    train(trainer, lambda t: rates.append((t.task, t.epoch, t.learning_rate, t.optimiser.param_groups[0]["lr"].item())))
    expected = {0: 0.4, 1: 0.2, 2: 0.2, 3: 0.1}
    assert [r[:2] for r in rates] == [(t, e) for t in range(2) for e in range(4) for _ in range(3)]
    for _, epoch, announced, used in rates:
        assert announced == pytest.approx(expected[epoch])
        assert used == pytest.approx(expected[epoch])


def test_momentum_starts_anew_with_every_task(make_trainer):
    trainer = make_trainer(momentum=0.9)
    list(trainer.steps())
    assert trainer.optimiser.state
    trainer.next_task()
    assert not trainer.optimiser.state


def test_weight_decay(make_trainer):
    plain, decayed = make_trainer(), make_trainer(weight_decay=0.1)
    before = copy.deepcopy(plain.model.state_dict())
    for trainer in (plain, decayed):
        next(trainer.steps())
    for name, parameter in plain.model.named_parameters():
        expected = parameter - 0.2 * 0.1 * before[name]
        torch.testing.assert_close(decayed.model.get_parameter(name), expected)


def test_a_fixed_scale_is_not_trained(make_trainer, train):
    trainer = make_trainer(head="cosine:scale=10,learnable=false")
    train(trainer)
    assert trainer.model.head.scale.item() == 10


@pytest.mark.parametrize("learner", ["finetune", "joint", "er"])
def test_joint_sees_all_tasks_at_once(make_trainer, train, learner):
    trainer = make_trainer(learner=learner)
    labels = []
    original = trainer.step
    trainer.step = lambda raw, y: labels.append(y.tolist()) or original(raw, y)
    train(trainer)
    mixed = any(min(batch) < 2 <= max(batch) for batch in labels)
    assert mixed == (learner == "joint")
    assert sorted(y for batch in labels for y in batch) == sorted(trainer.stream.train.labels.tolist() * 2)
    assert (trainer.memory is None) == (learner != "er")
