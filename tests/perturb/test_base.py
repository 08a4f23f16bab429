"""What holds for every perturbation, with every option."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from moca import Perturbation, option, perturbation, sphere
from moca.batch import Batch
from moca.errors import MocaError
from moca.models import Model
from moca.parts import PERTURBATIONS
from moca.perturb.gaussian import Gaussian
from moca.perturb.vmf import VMF
from moca.perturb.vt import VT
from moca.random import Random
from moca.settings import Run, heads, validate
from tests.perturb.helpers import CLASSES, OLD, OPTIONS, ROWS, SPECS, VARIANTS, make, moved, network, scene

every_spec = pytest.mark.parametrize("spec", SPECS)

STOCHASTIC = ["gaussian", "vmf", "doa_old", "doa_new", "doa_old:site=stages", "wap:labels=random,steps=2"]
USES_MODEL = [s for s in SPECS if s.startswith(("wap", "fgsm", "mrfa")) or "stages" in s or "classifier" in s]


def with_option(spec: str, option: str) -> str:
    return spec + ("," if ":" in spec else ":") + option


def recorded(p):
    """Make p keep the directions that it computes."""
    p.directions, direction = [], p.direction

    def record(replay, new):
        n = direction(replay, new)
        p.directions.append(n.detach())
        return n

    p.direction = record
    return p


def test_every_variant_is_tested():
    names = PERTURBATIONS.built_in.keys() - {"none"}
    assert names == set(VARIANTS)
    assert {s.partition(":")[0] for s in OPTIONS} < names


@every_spec
def test_old_rows_move_as_the_formula_says_and_no_other_row_does(spec):
    model = network()
    replay, new = scene(model)
    p = recorded(make(spec, model))
    f = p(replay, new)
    (n,) = p.directions
    unit = spec != "gaussian:unit=false"
    torch.testing.assert_close(f, moved(replay.features, n, OLD, 2.0, unit), rtol=1e-5, atol=1e-5)
    assert torch.equal(f[~OLD], replay.features[~OLD])
    assert (sphere.angle(f, replay.features)[OLD] > 1e-3).all()
    torch.testing.assert_close(f.norm(dim=1), replay.features.norm(dim=1))


@every_spec
def test_the_direction_is_never_differentiated(spec):
    model = network()
    replay, new = scene(model)
    p = recorded(make(spec, model))
    f = p(replay, new)
    (n,) = p.directions
    weights = torch.linspace(-1, 1, f.numel()).view_as(f)
    gradients = torch.autograd.grad((f * weights).sum(), [replay.features, new.features], allow_unused=True)
    constant = moved(replay.features, n.clone(), OLD, 2.0, unit=spec != "gaussian:unit=false")
    (expected,) = torch.autograd.grad((constant * weights).sum(), replay.features)
    torch.testing.assert_close(gradients[0], expected, rtol=1e-4, atol=1e-4)
    assert gradients[1] is None


@every_spec
def test_gradients_reach_the_encoder_through_the_feature_alone(spec):
    """In a training step the new features and the classifier hang on the graph too; the direction must not."""
    model = network()
    replay, new = scene(model)
    h, h_new = model.encode(replay.x), model.encode(new.x)
    p = recorded(make(spec, model))
    f = p(replay.replace(features=h), new.replace(features=h_new))
    head = list(model.head.parameters())
    assert all(g is None for g in torch.autograd.grad(f.sum(), head, retain_graph=True, allow_unused=True))
    encoder = list(model.encoder.parameters())
    got = torch.autograd.grad(f.sum(), encoder)
    unit = spec != "gaussian:unit=false"
    again = moved(model.encode(replay.x), p.directions[0], OLD, 2.0, unit)
    for g, e in zip(got, torch.autograd.grad(again.sum(), encoder), strict=True):
        torch.testing.assert_close(g, e, rtol=1e-3, atol=1e-3)


@every_spec
def test_a_batch_without_old_rows_is_unchanged(spec):
    for encoder in ("mlp", "convnet"):
        model = network(encoder)
        replay, new = scene(model)
        replay = replay.replace(old=torch.zeros(ROWS, dtype=torch.bool))
        f = make(spec, model)(replay, new)
        assert torch.equal(f, replay.features)
        (gradient,) = torch.autograd.grad(f.sum(), replay.features)
        assert torch.equal(gradient, torch.ones_like(gradient))


@every_spec
def test_no_mask_means_all_rows_are_old(spec):
    model = network()
    replay, new = scene(model)
    everywhere = make(spec, model)(replay.replace(old=torch.ones(ROWS, dtype=torch.bool)), new)
    unmasked = Batch(x=replay.x, y=replay.y, features=replay.features)
    torch.testing.assert_close(make(spec, model)(unmasked, new), everywhere)
    assert (sphere.angle(everywhere, replay.features) > 1e-3).all()


@every_spec
def test_lambda_zero_leaves_features_in_place(spec):
    model = network()
    replay, new = scene(model)
    torch.testing.assert_close(make(with_option(spec, "lambda=0"), model)(replay, new), replay.features)


@every_spec
def test_a_larger_lambda_rotates_further(spec):
    model = network()
    replay, new = scene(model)
    angles = [
        sphere.angle(make(with_option(spec, f"lambda={lam}"), model)(replay, new), replay.features)[OLD]
        for lam in (0.1, 1, 4)
    ]
    assert (angles[0] < angles[1]).all() and (angles[1] < angles[2]).all()


@every_spec
@pytest.mark.parametrize("degrees", [10, 90, 150])
def test_fixed_angle_is_exact(spec, degrees):
    model = network()
    replay, new = scene(model)
    p = recorded(make(with_option(spec, f"fixed_angle={degrees}"), model))
    f = p(replay, new)
    torch.testing.assert_close(
        sphere.angle(f, replay.features)[OLD].rad2deg(),
        torch.full((int(OLD.sum()),), float(degrees)),
        atol=0.05,
        rtol=0,
    )
    assert torch.equal(f[~OLD], replay.features[~OLD])
    torch.testing.assert_close(f.norm(dim=1), replay.features.norm(dim=1))
    # It turns towards the direction, not elsewhere: f, h and n lie in one plane.
    u, v, w = (sphere.project(t[OLD].double()) for t in (replay.features, p.directions[0], f))
    plane = torch.linalg.qr(torch.stack([u, v], dim=2)).Q
    outside = w.unsqueeze(2) - plane @ plane.mT @ w.unsqueeze(2)
    assert outside.abs().max() < 1e-3
    assert ((w * (v - (v * u).sum(1, keepdim=True) * u)).sum(1) > 0).all()


@every_spec
def test_angle_cap_is_never_exceeded_and_leaves_smaller_angles_alone(spec):
    model = network()
    replay, new = scene(model)
    free = make(spec, model)(replay, new)
    angles = sphere.angle(free, replay.features)[OLD]
    limit = angles.sort().values[:3].mean().rad2deg().item()
    capped = make(with_option(spec, f"angle_cap={limit}"), model)(replay, new)
    over = angles.rad2deg() > limit
    assert 0 < over.sum() < len(over)
    assert torch.equal(capped[OLD][~over], free[OLD][~over])
    got = sphere.angle(capped, replay.features)[OLD].rad2deg()
    torch.testing.assert_close(got[over], torch.full_like(got[over], limit), atol=0.02, rtol=0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("encoder", ["convnet", "resnet18"])
@pytest.mark.parametrize("spec", USES_MODEL)
def test_the_model_is_unchanged(spec, encoder, training):
    model = network(encoder).train(training)
    replay, new = scene(model)
    model.head.scale.requires_grad_(False)
    for q in model.encoder.parameters():
        q.grad = torch.full_like(q, 0.5)
    parameters = dict(model.named_parameters())
    before = copy.deepcopy(model)
    gradients = {name: q.grad for name, q in parameters.items()}
    f = make(spec, model)(replay, new)
    f.sum().backward()
    assert all(a is b for a, b in zip(parameters.values(), model.parameters(), strict=True))
    assert not model.state_dict().keys() ^ before.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before.state_dict()[name]), name
    assert any("running_var" in name for name in model.state_dict())
    for name, q in model.named_parameters():
        assert q.grad is gradients[name]
        assert q.grad is None or (q.grad == 0.5).all()
        assert q.requires_grad == (name != "head.scale")
    assert all(module.training == training for module in model.modules())


@every_spec
def test_state_dict_resumes_bit_identically(spec):
    model = network()
    p = make(spec, model)
    for seed in range(2):
        p(*scene(model, seed=seed))
    state = p.state_dict()
    first = [p(*scene(model, seed=seed)) for seed in (2, 3)]
    resumed = make(spec, model)
    resumed.load_state_dict(state)
    again = [resumed(*scene(model, seed=seed)) for seed in (2, 3)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    # What was loaded must not go on being shared with the one that runs.
    other = make(spec, model)
    other.load_state_dict(state)
    assert torch.equal(other(*scene(model, seed=2)), first[0])


@pytest.mark.parametrize("spec", STOCHASTIC)
def test_only_the_seed_matters(spec):
    model = network()
    replay, new = scene(model)
    before = torch.random.get_rng_state()
    first = make(spec, model, seed=1)(replay, new)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(123)
    p = make(spec, model, seed=1)
    assert torch.equal(p(replay, new), first)
    assert not torch.equal(p(replay, new), first)
    assert not torch.equal(make(spec, model, seed=2)(replay, new), first)


@every_spec
@pytest.mark.parametrize(("rows", "new_rows"), [(8, 4), (5, 8), (8, 1), (1, 8)])
def test_batches_of_different_sizes(spec, rows, new_rows):
    model = network()
    replay, new = scene(model, rows, new_rows)
    f = make(spec, model)(replay, new)
    assert f.shape == (rows, 10) and f.isfinite().all()
    assert torch.equal(f[~replay.old], replay.features[~replay.old])
    if new_rows > 1 or not spec.startswith("vt"):
        assert (sphere.angle(f, replay.features)[replay.old] > 1e-3).all()


@every_spec
def test_zero_features_give_no_nan(spec):
    """A dead feature cannot move; its neighbours move as ever."""
    model = network(head=heads.Cosine(scale=5.0))
    replay, new = scene(model)
    dead = replay.features.detach().clone()
    dead[[0, 1]] = 0
    dead_new = new.features.detach().clone()
    dead_new[2] = 0
    for far in ("lambda=2", "fixed_angle=30", "angle_cap=20"):
        h = dead.clone().requires_grad_()
        f = make(with_option(spec, far), model)(replay.replace(features=h), new.replace(features=dead_new))
        logits = model.classify(f)
        (gradient,) = torch.autograd.grad(logits.sum(), h)
        assert f.isfinite().all() and logits.isfinite().all()
        assert torch.equal(f[[0, 1]], dead[[0, 1]])
        assert gradient.abs().max() < 1e3


@every_spec
def test_low_precision_features_keep_their_type(spec):
    model = network()
    replay, new = scene(model)
    exact = make(spec, model)(replay, new)
    h = replay.features.detach().bfloat16()
    if spec in ("fgsm", "mrfa"):
        model.head.bfloat16()
    f = make(spec, model)(replay.replace(features=h), new)
    assert f.dtype == torch.bfloat16 and f.isfinite().all()
    assert torch.equal(f[~OLD], h[~OLD])
    if not spec.startswith("vmf"):
        assert sphere.angle(f.float(), exact).rad2deg().max() < 6


class Operations(TorchDispatchMode):
    """Names of the operations that run, with the types of the index where one is used."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        if name.startswith("aten.index"):
            assert all(i is None or i.dtype == torch.int64 for i in args[1]), "a boolean index has no fixed shape"
        self.names.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("spec", [*SPECS, "gaussian:fixed_angle=30", "doa_old:angle_cap=20"])
def test_the_operations_do_not_depend_on_the_data(spec, monkeypatch):
    """So that a step can be compiled or captured: fixed shapes, no wait for a value, and none sent to the device."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # then, and on a GPU, labels are not looked at
    model = network()
    seen = []
    for old in (OLD, torch.ones(ROWS, dtype=torch.bool), torch.zeros(ROWS, dtype=torch.bool)):
        replay, new = scene(model)
        p = make(spec, model)
        p(replay, new)
        with Operations() as operations:
            p(replay.replace(old=old), new)
        seen.append(operations.names)
    assert seen[0] == seen[1] == seen[2]
    # On a CPU torch's one_hot looks at its input's range; on a GPU it does not.
    allowed = spec.startswith("vt")
    assert allowed or not {"aten._local_scalar_dense.default", "aten.nonzero.default"} & set(seen[0])
    assert "aten.lift_fresh.default" not in seen[0], "a tensor made of a Python number"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # of torch's own compiler
@pytest.mark.parametrize("name", ["gaussian", "vmf", "doa_old", "doa_new", "vt"])
def test_a_compiled_line_has_the_same_gradients(name):
    """Also where the compiled backward pass draws the numbers again, as compilers do to save memory."""
    rows, dimensions = 12, 64
    h, new, weights = (torch.randn(rows, dimensions, generator=torch.manual_seed(i)) for i in range(3))
    labels, old = torch.arange(rows) % CLASSES, torch.arange(rows) < 8

    def loss(p, h):
        replay = Batch(features=h, old=old, y=labels)
        return (p(replay, Batch(features=new, y=labels)) * weights).sum()

    def gradient(line, p):
        leaf = h.clone().requires_grad_()
        for _ in range(3):  # the next numbers each time
            line(p, leaf).backward()
        return leaf.grad

    compiled = torch.compile(loss, backend="aot_eager_decomp_partition", fullgraph=True)
    expected = gradient(loss, perturbation(name, classes=CLASSES))
    torch.testing.assert_close(gradient(compiled, perturbation(name, classes=CLASSES)), expected)


def test_the_cosine_head_makes_the_length_irrelevant():
    """P(||h|| P(u + lambda n)) = P(u + lambda n), in value and gradient: the official code's shorter form is ours."""
    model = network()
    replay, new = scene(model)
    p = recorded(make("gaussian:lambda=1.5", model))
    replay = replay.replace(old=torch.ones(ROWS, dtype=torch.bool))
    h = replay.features
    logits = model.classify(p(replay, new))
    short = model.classify(
        h / h.norm(dim=1, keepdim=True) + 1.5 * p.directions[0] / p.directions[0].norm(dim=1, keepdim=True)
    )
    torch.testing.assert_close(logits, short)
    loss, loss_short = (nn.functional.cross_entropy(z, replay.y) for z in (logits, short))
    wanted = [h, *model.head.parameters()]
    for a, b in zip(torch.autograd.grad(loss, wanted), torch.autograd.grad(loss_short, wanted), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_the_linear_head_sees_the_length():
    model = network(head=heads.Linear())
    replay, new = scene(model)
    f = make("gaussian", model)(replay, new)
    assert not torch.allclose(model.classify(f), model.classify(sphere.project(f)), atol=1e-2)


@every_spec
def test_an_empty_replay_batch_stays_empty(spec):
    """As before the second task, where a loop does not leave the line out."""
    model = network()
    replay, new = scene(model)
    none = Batch(x=replay.x[:0], y=replay.y[:0], old=replay.old[:0], features=replay.features[:0])
    assert make(spec, model)(none, new).shape == none.features.shape


class TestNetworksOfOnesOwn:
    @pytest.mark.parametrize("spec", ["wap", "fgsm", "mrfa", "vt:center=classifier"])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_in_another_precision(self, spec, dtype):
        model = network().to(dtype)
        replay, new = (batch.replace(x=batch.x.to(dtype)) for batch in scene(network()))
        h = model.encode(replay.x)
        assert h.dtype == dtype
        moved = perturbation(spec, model=model, lr=0.1)(replay.replace(features=h), new)
        assert moved.dtype == dtype
        assert ((moved != h).any(1) == replay.old).all()

    @pytest.mark.parametrize("spec", ["wap", "fgsm", "mrfa"])
    def test_with_any_module_as_classifier(self, spec):
        model = network()
        plain = perturbation(spec, model=model, lr=0.1)(*scene(model))
        model.head = nn.Sequential(nn.Identity(), model.head)
        assert perturbation(spec, model=model, lr=0.1)(*scene(model)).equal(plain)


class TestMistakes:
    @pytest.mark.parametrize(
        ("spec", "given", "needs"),
        [
            ("wap", {"lr": 0.1}, "model="),
            ("wap", {"lr": 0.1, "encoder": True}, "model=, a moca.Model"),
            ("wap", {"model": True}, "lr="),
            ("fgsm", {}, "model="),
            ("mrfa", {}, "model="),
            ("vt", {}, "classes="),
            ("vt:center=classifier", {}, "model="),
            ("doa_old:site=stages", {}, "model="),
            ("doa_new:site=stages", {}, "model="),
        ],
    )
    def test_what_is_missing_is_named(self, spec, given, needs):
        model = network()
        if "model" in given:
            given = given | {"model": model}
        if given.get("encoder"):
            given = {"lr": given["lr"], "model": model.encoder}
        with pytest.raises(ValueError, match=f"this perturbation needs {needs}"):
            perturbation(spec, **given)

    def test_features_alone_are_no_batch(self):
        with pytest.raises(TypeError, match=r"moves a moca.Batch\(features=h, old=...\), not Tensor"):
            perturbation("gaussian")(torch.ones(3, 4))

    def test_nor_are_features_of_new_samples(self):
        with pytest.raises(TypeError, match=r"the new samples are a moca.Batch\(features=h_new, ...\), not Tensor"):
            perturbation("add_new")(Batch(features=torch.ones(3, 4)), torch.ones(3, 4))

    def test_images_are_those_of_the_features(self):
        replay, new = scene(network())
        with pytest.raises(ValueError, match=f"x= has 2 samples and features= {ROWS} rows; give both of the same"):
            make("wap", network())(replay.replace(x=replay.x[:2]), new)

    @pytest.mark.parametrize(
        ("lr", "says"),
        [
            ("0.1", "a number or a tensor of one, not '0.1'$"),
            (torch.ones(2), "a number or a tensor of one, not a Tensor$"),
            (torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(2)], lr=0.1), 1), "not a StepLR$"),
        ],
    )
    def test_a_learning_rate_is_a_number(self, lr, says):
        with pytest.raises(TypeError, match=says):
            perturbation("wap", model=network(), lr=lr)

    @pytest.mark.parametrize("classes", ["10", 0, 2.5, [0, 1], True])
    def test_the_number_of_classes_is_one(self, classes):
        with pytest.raises(TypeError, match=r"classes= is how many classes there are or will be, a whole number, not "):
            perturbation("vt", classes=classes)

    def test_a_model_is_of_modules(self):
        with pytest.raises(TypeError, match=r"encoder of a moca.Model is a torch module, not a function; wrap it"):
            Model(lambda x: x, nn.Linear(3, 4))
        with pytest.raises(TypeError, match=r"head of a moca.Model is a torch module, not a Tensor"):
            Model(nn.Identity(), torch.ones(3, 4))

    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ("gaussian", "takes options with the name: 'gaussian:lambda=2,cap=exact'$"),
            ("wap:steps=2", "takes options with the name: 'wap:steps=2,lambda=2,cap=exact'$"),
            (Gaussian, "takes options with the name: an object made with them$"),
        ],
    )
    def test_options_belong_to_the_name(self, spec, says):
        with pytest.raises(MocaError, match=says):
            perturbation(spec, lam=2, cap="exact")

    @pytest.mark.parametrize(
        "old", [[True] * ROWS, torch.ones(ROWS), torch.ones(1, dtype=torch.bool), torch.ones(ROWS, 1, dtype=torch.bool)]
    )
    def test_old_rows_are_marked_one_by_one(self, old):
        replay, new = scene(network())
        with pytest.raises(ValueError, match=f"old= is a tensor of {ROWS} truth values"):
            perturbation("gaussian")(replay.replace(old=old), new)

    @pytest.mark.parametrize("shape", [(ROWS, 16, 1, 1), (ROWS, ROWS, 16), (16,)], ids=["unpooled", "tokens", "one"])
    def test_a_sample_has_one_vector(self, shape):
        """Of other shapes the rows that `old` marks would be other ones, and the lengths those of single numbers."""
        with pytest.raises(ValueError, match="one vector a sample, not float32 of "):
            perturbation("gaussian")(Batch(features=torch.ones(shape)))

    def test_features_are_floats(self):
        with pytest.raises(ValueError, match="not int64 of "):
            perturbation("gaussian")(Batch(features=torch.ones(ROWS, 16, dtype=torch.int64)))

    @pytest.mark.parametrize("spec", ["vt", "vt:center=classifier", "wap", "wap:labels=random", "fgsm", "mrfa"])
    def test_labels_are_classes(self, spec):
        model = network()
        replay, new = scene(model)
        perturb = make(spec, model)

        def moved(y):
            return perturb(replay.replace(y=y), new.replace(y=y))

        for label in (CLASSES, -1):
            with pytest.raises(ValueError, match=f"y= has a label {label}, but classes are 0 to {CLASSES - 1}"):
                moved(torch.full((ROWS,), label))
        for wrong in (new.y.float(), new.y.unsqueeze(1)):
            with pytest.raises(ValueError, match=rf"y= is a tensor of class numbers, int64 of \({ROWS},\)"):
                moved(wrong)

    def test_a_classifier_without_rows_is_named(self):
        model = network()
        model.head = nn.Sequential(model.head)
        with pytest.raises(MocaError, match=r"a row for each class, .*, not a Sequential"):
            perturbation("vt:center=classifier", model=model)(*scene(model))

    def test_a_seed_is_a_number(self):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            perturbation("gaussian", seed="x")

    def test_only_what_is_needed_is_asked_for(self):
        model = network()
        for spec in ("gaussian", "vmf", "doa_old", "doa_new", "add_new", "minus_new", "vt:center=batch"):
            assert perturbation(spec)(*scene(model)).isfinite().all()
        assert perturbation("wap:relative=false", model=model)(*scene(model)).isfinite().all()

    @pytest.mark.parametrize(
        ("spec", "replay_fields", "new_fields", "missing"),
        [
            ("gaussian", (), (), "features"),
            ("doa_new", ("features",), (), "features"),
            ("doa_old:site=stages", ("features",), (), "x"),
            ("doa_new:site=stages", ("features",), ("features",), "x"),
            ("add_new", ("features",), ("y",), "features"),
            ("vt", ("features",), ("features",), "y"),
            ("vt", ("features",), ("y",), "features"),
            ("wap", ("features",), ("y",), "x"),
            ("wap", ("features", "x"), ("features",), "y"),
            ("fgsm", ("features",), ("y",), "y"),
            ("mrfa:site=stages", ("features",), (), "x"),
        ],
    )
    def test_a_missing_field_is_named(self, spec, replay_fields, new_fields, missing):
        model = network()
        replay, new = scene(model)
        replay = Batch(**{k: getattr(replay, k) for k in replay_fields})
        new = Batch(**{k: getattr(new, k) for k in new_fields})
        with pytest.raises(AttributeError, match=f"this needs a batch with '{missing}'"):
            make(spec, model)(replay, new)

    def test_without_a_new_batch(self):
        model = network()
        replay, _ = scene(model)
        assert make("gaussian", model)(replay).isfinite().all()
        with pytest.raises(AttributeError, match=r"looks at the new batch too: perturb\(replay, Batch\(features="):
            make("add_new", model)(replay)

    def test_unknown_name_and_option(self):
        with pytest.raises(MocaError, match="unknown perturbation 'gausian'; did you mean 'gaussian'"):
            perturbation("gausian")
        with pytest.raises(MocaError, match="unknown option 'kapa' of 'vmf'; did you mean 'kappa'"):
            perturbation("vmf:kapa=3")

    def test_none_moves_nothing(self):
        h = torch.randn(3, 4)
        assert perturbation("none")(Batch(features=h)) is h


def test_every_way_to_write_it_is_the_same():
    model = network()
    replay, new = scene(model)
    specs = (
        "vmf:lambda=1.5,kappa=3",
        "moca.perturb.vmf.VMF:lambda=1.5,kappa=3",
        {"name": "vmf", "lambda": 1.5, "kappa": 3},
        validate(Run, {"perturb": "vmf:lambda=1.5,kappa=3"}).perturb,
        VMF(lam=1.5, kappa=3),
        VMF(**{"lambda": 1.5, "kappa": 3}),
    )
    first, *others = (perturbation(spec, seed=4)(replay, new) for spec in specs)
    assert all(torch.equal(first, other) for other in others)
    by_hand = VMF(lam=1.5, kappa=3).attach(Random(4, "perturb"))
    assert torch.equal(by_hand(replay, new), first)


def test_a_class_is_taken_with_its_defaults():
    replay, new = scene(network())
    assert torch.equal(perturbation(Gaussian, seed=4)(replay, new), perturbation("gaussian", seed=4)(replay, new))


def test_an_object_is_used_afresh_each_time():
    """What was given stays as it was, so that it can serve several runs."""
    mine = VT(momentum=0.5)
    model = network()
    first = perturbation(mine, classes=CLASSES)(*scene(model))
    again = perturbation(mine, classes=CLASSES)(*scene(model))
    assert torch.equal(first, again)
    assert mine.means is None and not hasattr(mine, "random")


def test_options_are_checked_where_an_object_is_made():
    for name in VARIANTS:
        with pytest.raises(MocaError, match="fixed_angle and angle_cap exclude each other"):
            PERTURBATIONS.find(name)(fixed_angle=10, angle_cap=20)
    with pytest.raises(MocaError, match="lambda = -1: "):
        Gaussian(**{"lambda": -1})
    with pytest.raises(MocaError, match="unknown option 'lamda' of 'gaussian'; did you mean 'lambda'"):
        Gaussian(lamda=1)


class Sideways(Perturbation):
    """One's own: a class that says which way."""

    share: float = option(1.0, "how much of it", ge=0)

    def direction(self, replay, new):
        return self.share * replay.features.roll(1, 1)


@pytest.mark.parametrize("spec", [Sideways, Sideways(), f"{__name__}.Sideways", f"{__name__}.Sideways:share=3"])
def test_your_own_perturbation(spec):
    replay, new = scene(network())
    expected = moved(replay.features, replay.features.detach().roll(1, 1), OLD)
    torch.testing.assert_close(perturbation(spec)(replay, new), expected)


@pytest.mark.parametrize("spec", ["gaussian", "vt", "vt:center=batch"])
def test_more_classes_may_come(spec):
    """What is known about the first classes stays; the others begin as those did."""
    model = network()
    p, wide = make(spec, model), perturbation(spec, model=model, lr=0.1, classes=CLASSES + 3, seed=7)
    batches = [scene(model, seed=seed) for seed in range(3)]
    for replay, new in batches[:2]:
        assert torch.equal(p(replay, new), wide(replay, new))
    p.grow(CLASSES + 3)
    replay, new = batches[2]
    later = new.replace(y=new.y + 3)
    assert torch.equal(p(replay, later), wide(replay, later))


def test_a_foreign_model_with_a_plain_linear_head():
    """Any module that maps images to vectors, with a parameter that it never uses, and `nn.Linear`."""

    class Foreign(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.unused = nn.Linear(36, 10), nn.Parameter(torch.ones(3))

        def forward(self, x):
            return self.layer(x.flatten(1)).tanh()

    model = Model(Foreign(), nn.Linear(10, CLASSES))
    replay, new = scene(model)
    for spec in ("wap", "fgsm", "mrfa", "vt:center=classifier"):
        f = make(spec, model)(replay, new)
        assert f.isfinite().all()
        assert (sphere.angle(f, replay.features)[OLD] > 1e-3).all()


def test_the_readme_line():
    """One line of MOCA in any loop: features and a mask are enough for the model-agnostic ones."""
    h, old = torch.eye(4, 8, requires_grad=True), torch.tensor([True, True, False, False])
    f = perturbation("gaussian:fixed_angle=45")(Batch(features=h, old=old))
    assert sphere.angle(f, h).rad2deg().tolist() == pytest.approx([45, 45, 0, 0], abs=1e-3)
    assert math.isfinite(f.sum().item())


def test_made_by_class_equals_made_by_name():
    h = torch.randn(5, 8)
    by_name = perturbation("gaussian:lambda=1")
    assert torch.equal(Gaussian(lam=1.0)(Batch(features=h)), by_name(Batch(features=h)))
    with pytest.raises(ValueError, match="needs classes=, the number of classes"):
        VT()(Batch(features=h), Batch(features=h, y=torch.zeros(5, dtype=torch.int64)))


def test_a_model_without_weights_is_no_obstacle_where_none_is_asked_for():
    assert torch.equal(
        perturbation("gaussian", model=nn.Identity())(Batch(features=torch.ones(2, 3))),
        perturbation("gaussian")(Batch(features=torch.ones(2, 3))),
    )


def test_features_of_two_layers_are_refused():
    perturb, h = perturbation("doa_new"), torch.rand(8, 16)
    with pytest.raises(ValueError, match=r"new samples are \(8, 32\) and of replayed ones \(8, 16\); take both from"):
        perturb(Batch(features=h), Batch(features=torch.rand(8, 32)))


class TestAStateOfAnother:
    @pytest.mark.parametrize("state", [{}, {"weights": 1}, None, [1]])
    def test_is_refused(self, state):
        with pytest.raises(MocaError, match=r"^a state of 'Gaussian' holds random, not .*; load one of its own$"):
            perturbation("gaussian").load_state_dict(state)

    def test_kind_is_refused_and_changes_nothing(self):
        gaussian, vt = perturbation("gaussian"), perturbation("vt", classes=CLASSES, seed=5)
        before = gaussian.state_dict()
        with pytest.raises(MocaError, match="holds random, not random, means, batches; load one of its own"):
            gaussian.load_state_dict(vt.state_dict())
        assert all(
            torch.equal(gaussian.state_dict()["random"][name], value) for name, value in before["random"].items()
        )

    def test_number_of_classes_is_refused(self):
        few, more = perturbation("vt", classes=4), perturbation("vt", classes=7)
        fresh = few.state_dict()
        few(Batch(features=torch.ones(4, 3)), Batch(features=torch.ones(4, 3), y=torch.arange(4)))
        more.load_state_dict(fresh)  # it has no means yet
        with pytest.raises(MocaError, match="this state has means of 4 classes, not 7; give classes=4"):
            more.load_state_dict(few.state_dict())
