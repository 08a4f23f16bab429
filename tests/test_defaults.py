"""What a run leaves open: filled in from the protocol, then from the methods' own files; what was given wins."""

import json
from dataclasses import replace

import pytest
from PIL import Image

import moca
from moca.data import catalogue
from moca.data.sizing import handy_size
from moca.defaults import choices_in_words, complete, own_recipe, unused_in_words
from moca.engine.material import Material
from moca.parts import LEARNERS, PERTURBATIONS
from moca.recipes import load_recipe
from moca.settings import RECIPE, Run, validate


@pytest.fixture(scope="module")
def digits():
    return moca.load("digits")


@pytest.fixture
def cifar100(make_dataset):
    """A set that is used as CIFAR-100 is."""
    known = catalogue.known("cifar100")

    def used(protocol):
        made = make_dataset([4] * 100, channels=3, side=8)
        object.__setattr__(made, "name", "cifar100")
        object.__setattr__(made, "protocol", known.protocols[protocol])
        return made

    return used


def completed(dataset, **given):
    return complete(validate(Run, given), dataset)


def test_a_run_on_cifar100_is_the_papers_offline_setting(cifar100):
    run = completed(cifar100("offline"))
    assert (run.epochs, run.batch, run.lr, run.memory.size) == (50, 32, 0.1, 500)
    assert str(run.schedule) == "steps"
    assert run.schedule.at == (35, 45)
    assert str(run.model) == "resnet18"
    assert str(run.head) == "cosine"
    assert run.tasks == (20,) * 5
    assert run.optimiser.momentum == run.optimiser.weight_decay == 0


def test_no_setting_is_left_open(digits):
    """As Python has it, and settings of version 0.1."""
    given = {"tasks": None, "class_order": None, "model": None}
    assert completed(digits, **given) == completed(digits)
    (line,) = choices_in_words([(validate(Run, given), completed(digits), digits)])
    assert "tasks 5, model convnet" in line


@pytest.mark.parametrize(
    ("learner", "expected"),
    [
        ("derpp", {"lr": 0.03}),
        ("er_ace", {"lr": 0.03}),
        ("agem", {"lr": 0.03}),
        ("icarl", {"lr": 0.3}),
        ("joint", {"lr": 0.03}),
        ("finetune", {"lr": 0.03}),
    ],
)
def test_a_learners_own_recipe(cifar100, learner, expected):
    run = completed(cifar100("offline"), learner=learner)
    assert {name: getattr(run, name) for name in expected} == expected
    assert completed(cifar100("offline"), learner=learner, lr=0.7).lr == 0.7
    if learner == "joint":
        assert str(run.schedule) == "constant"


@pytest.mark.parametrize(
    ("protocol", "lam"),
    [("offline", 2.0), ("online", 0.8), ("online_augmented", 0.8), ("proxy", 1.0), ("proxy20", 1.0)],
)
def test_the_strength_of_the_protocol(cifar100, protocol, lam):
    assert completed(cifar100(protocol), perturb="gaussian").perturb.lam == lam
    assert completed(cifar100(protocol), perturb="gaussian:lambda=3").perturb.lam == 3
    assert moca.perturbation("gaussian").lam == 2, "in a loop of one's own: the paper's"


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("vmf", {"kappa": 100}),
        ("doa_old", {"rate": 0.5}),
        ("vt", {"momentum": 0.9}),
        ("wap", {"steps": 1, "step_size": 10, "relative": True}),
        ("derpp", {"alpha": 0.1, "beta": 0.5}),
        ("bfp", {"weight": 1, "projector_lr": 0.1, "projector_momentum": 0.9}),
        ("gem", {"gamma": 0.5}),
        ("mir", {"candidates": 50}),
        ("pass", {"temperature": 0.1, "prototypes": 10, "distillation": 10}),
    ],
)
def test_what_the_papers_used_is_the_default(name, published):
    made = (PERTURBATIONS if name in PERTURBATIONS.built_in else LEARNERS).find(name)()
    assert {option: getattr(made, option) for option in published} == published


@pytest.mark.parametrize(("protocol", "form"), [("offline", "offline"), ("online", "online")])
def test_a_recipe_may_set_options_of_the_learner(cifar100, protocol, form):
    run = completed(cifar100(protocol), learner="icarl")
    assert run.learner.form == form
    assert str(run.head) == "linear"
    assert completed(cifar100(protocol), learner="icarl:form=offline").learner.form == "offline", "what was given wins"
    assert complete(run, cifar100(protocol)) == run
    (told,) = choices_in_words([(validate(Run, {"learner": "icarl"}), run, cifar100(protocol))])
    assert ("learner icarl:form=online" in told) == (form == "online")


@pytest.mark.parametrize("learner", ["er", "icarl", "xder"])
def test_augmented_or_not_an_online_run_is_trained_the_same(cifar100, learner):
    plain, augmented = (completed(cifar100(name), learner=learner) for name in ("online", "online_augmented"))
    assert plain == augmented


@pytest.mark.parametrize("protocol", ["online", "online_augmented"])
def test_online_is_one_pass_with_a_memory_of_each_class(cifar100, protocol):
    run = completed(cifar100(protocol))
    assert (run.epochs, run.batch, str(run.memory)) == (1, 10, "20:per=class")
    assert str(run.model) == "resnet18:width=20,pool=4"


@pytest.mark.parametrize("learner", LEARNERS.built_in)
def test_what_is_complete_stays_as_it_is(digits, learner):
    run = completed(digits, learner=learner)
    assert complete(run, digits) == run
    again = validate(Run, json.loads(run.model_dump_json(by_alias=True)))
    assert complete(again, digits) == run


@pytest.mark.parametrize("perturb", PERTURBATIONS.built_in)
def test_what_is_given_wins(digits, perturb):
    given = {
        "epochs": 3,
        "lr": 0.5,
        "memory": "7:per=class",
        "head": "linear",
        "schedule": "constant",
        "perturb": perturb,
    }
    run, asked = completed(digits, **given), validate(Run, given)
    assert all(getattr(run, name) == getattr(asked, name) for name in given if name != "perturb")
    assert run.perturb.name == perturb
    assert str(run.model) == "convnet"


@pytest.mark.parametrize(
    ("given", "lr"),
    [
        ({"optimiser": "adam"}, 0.001),
        ({"optimiser": "adamw", "learner": "derpp"}, 0.001),
        ({"optimiser": "sgd:momentum=0.9"}, 0.03),
        ({"optimiser": "adam:weight_decay=0", "learner": "pass"}, 0.001),
        ({"optimiser": "sgd", "learner": "pass"}, 0.1),
        ({"optimiser": "adam", "lr": 0.03}, 0.03),
    ],
)
def test_a_recipe_s_learning_rate_is_for_its_optimiser(digits, given, lr):
    assert completed(digits, **given).lr == lr


def test_what_was_chosen_is_told_in_a_line(digits):
    given = validate(Run, {"epochs": 3})
    (line,) = choices_in_words([(given, complete(given, digits), digits)])
    assert line.startswith("digits: ")
    assert "\n" not in line
    assert "memory 30" in line
    assert "epochs" not in line
    run = complete(given, digits)
    assert choices_in_words([(run, run, digits)]) == [], "nothing was left open"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([{"optimiser": "adam"}], "lr 0.001 (usual for adam),"),
        ([{"optimiser": "sgd", "learner": "pass"}], "lr 0.1 (usual for sgd),"),
        ([{"optimiser": "sgd:momentum=0.9"}, {"optimiser": "adamw"}], "lr 0.03 or 0.001 (usual for adamw),"),
        ([{"optimiser": "adam", "learner": "pass"}], "lr 0.001,"),
        ([{}], "lr 0.03,"),
    ],
)
def test_a_learning_rate_that_no_recipe_gave_is_not_said_to_be_the_recipe_s(digits, given, told):
    several = [validate(Run, one) for one in given]
    (line,) = choices_in_words([(one, complete(one, digits), digits) for one in several])
    assert told in line


def test_of_methods_only_the_options_from_the_recipe_are_told(digits):
    several = [validate(Run, {"learner": "xder", "perturb": f"wap:steps={steps}"}) for steps in (1, 2)]
    (line,) = choices_in_words([(given, complete(given, digits), digits) for given in several])
    assert "learner xder:alpha=0.3,beta=1.0,eta=0.15, perturb wap:lambda=0.5 (from" in line


def test_what_was_chosen_for_several_runs_is_told_in_one_line(digits):
    several = [validate(Run, {"learner": learner, "lr": 1, "perturb": "vt"}) for learner in ("er", "pass")]
    (line,) = choices_in_words([(given, complete(given, digits), digits) for given in several])
    assert line == (
        "digits: tasks 5, model convnet, epochs 20, batch 32, optimiser sgd or adam:weight_decay=0.0002, schedule "
        "cosine, head cosine:scale=10.0 or linear, memory 30, perturb vt:lambda=0.5, learner "
        "pass:prototypes=3.0,distillation=0.3 (from its 'small' recipe; options you give take precedence)"
    )


@pytest.mark.parametrize(
    ("learners", "given", "said"),
    [
        (["finetune"], {"memory": 50}, "finetune"),
        (["er", "lwf", "joint", "lwf"], {"memory": "5:per=class"}, "lwf, joint"),
        (["teacher:of=ewc"], {"memory": 50}, "teacher"),
        (["finetune"], {}, ""),
        (["finetune"], {"memory": 0}, ""),
        (["er", "gem", "icarl"], {"memory": 50}, ""),
    ],
)
def test_a_memory_that_was_given_to_learners_without_one_is_told(digits, learners, given, said):
    runs = [completed(digits, learner=learner, **given) for learner in learners]
    assert unused_in_words(given, runs) == (said and f"the memory given is not used by {said}: no samples are kept")


@pytest.mark.parametrize(
    ("counts", "side", "device", "model", "epochs"),
    [
        ([48] * 6, 32, "cpu", "resnet18:width=8", 84),
        ([16] * 6, 32, "cpu", "resnet18:width=8", 100),
        ([160] * 12, 32, "cpu", "resnet18:width=8", 21),
        ([48] * 6, 16, "cpu", "convnet", 50),
        ([10] * 2, 32, "cpu", "convnet", 50),
        ([400] * 10, 32, "cpu", "convnet", 6),
        ([400] * 10, 32, "cuda", "resnet18", 50),
    ],
)
def test_an_encoder_and_epochs_by_size_and_number_of_the_images(make_dataset, counts, side, device, model, epochs):
    made = make_dataset(counts, side=side, channels=3, recipe={})
    recipe = own_recipe(made, device)
    assert (recipe["model"], recipe["epochs"]) == (model, epochs)
    assert len(counts) <= recipe["memory"] <= sum(counts)
    assert validate(Run, recipe).epochs == recipe["epochs"]


@pytest.fixture
def folder(tmp_path):
    def make(side, classes=5, each=6):
        for c in range(classes):
            for i in range(each):
                path = tmp_path / "images" / f"class{c}" / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (side, side + 3), (40 * c, 9 * i, 90)).save(path)
        (tmp_path / "images" / "class0" / "readme.txt").write_text("no image")
        return tmp_path / "images"

    return make


@pytest.mark.parametrize(("side", "size"), [(20, None), (48, None), (49, 32), (300, 32)])
def test_large_images_of_a_folder_are_resized(folder, tmp_path, side, size):
    path = folder(side)
    assert handy_size(path) == size
    given = validate(Run, {"data": str(path), "data_dir": str(tmp_path / "store"), "device": "cpu"})
    run, stream = Material()(given)
    assert stream.shape[1:] == ((size, size) if size else (side + 3, side))
    assert run.image_size == size
    assert Material()(run)[1].shape == stream.shape, "a resumed run sees the same images"
    asked = validate(Run, {"data": str(path), "data_dir": str(tmp_path / "store"), "device": "cpu", "image_size": 24})
    assert Material()(asked)[1].shape[1:] == (24, 24)


def test_no_task_has_a_single_class_unless_asked(folder, tmp_path):
    data = {"data": str(folder(20)), "data_dir": str(tmp_path / "store"), "device": "cpu"}
    assert [len(task.classes) for task in Material()(validate(Run, data))[1]] == [3, 2]
    assert [len(task.classes) for task in Material()(validate(Run, data | {"tasks": 5}))[1]] == [1] * 5


def test_all_that_recipes_fill_in_is_known_to_the_help_and_the_reports():
    protocols = [p.recipe for name in catalogue.descriptions() for p in catalogue.known(name).protocols.values()]
    learners = [
        recipe.keys() - made.options.keys()
        for made in (LEARNERS.find(name)() for name in LEARNERS.built_in)
        for recipe in made.recipes.values()
    ]
    named = {key for recipe in (*load_recipe("protocols").values(), *protocols, *learners) for key in recipe}
    assert named <= {"learner", "bn_passes", *RECIPE} <= set(Run.model_fields), "these two have a default that is said"


@pytest.mark.parametrize(
    ("data", "memory", "expected"),
    [
        ("cifar10", 200, (0.1, 0.5)),
        ("cifar10", 500, (0.2, 0.5)),
        ("tinyimagenet", 200, (0.1, 1.0)),
        ("cifar100", 500, (0.1, 0.5)),
    ],
)
def test_the_official_settings_depend_on_the_memory_too(make_dataset, data, memory, expected):
    made = replace(make_dataset((4,) * 10), name=data, protocol=catalogue.known(data).protocols["offline"])
    run = complete(validate(Run, {"learner": "derpp", "memory": memory, "tasks": 5}), made)
    assert (run.learner.alpha, run.learner.beta, run.lr) == (*expected, 0.03)
    given = complete(validate(Run, {"learner": "derpp:alpha=0.7", "memory": memory, "tasks": 5}), made)
    assert given.learner.alpha == 0.7
    of_each = complete(validate(Run, {"learner": "derpp", "memory": f"{memory}:per=class", "tasks": 5}), made)
    assert of_each.learner.alpha == 0.1, "of so many samples in all, not of each class"
