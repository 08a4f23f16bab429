"""The command line: exit codes, one line for a mistake, and no torch where none is needed."""

import io
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from PIL import Image

from moca import MocaError, load
from moca.cli import config
from moca.cli.hints import as_options

FAST = [
    *("--model", "mlp:width=8,depth=1,features=4"),
    *("--memory", "20"),
    *("--tasks", "2"),
    *("--batch", "200"),
    *("--device", "cpu"),
    *("--threads", "1"),
    *("--epochs", "1"),
]


def in_a_process(*words, code=None, **variables):
    command = ["-c", code, *words] if code else ["-m", "moca", *words]
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=os.environ | variables)


WATCH = """
import sys
from moca.cli import main
heavy, *commands = map(str.split, sys.argv[1:])
sys.argv[0] = "moca"
for words in commands:
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, (words, end.code)
    found = sys.modules.keys() & set(heavy)
    assert not found, (words, found)
    print(end="\\0")
"""


def without_loading(heavy, *commands):
    """What each of some commands in one new process prints, of which none must load any of these modules."""
    done = in_a_process(heavy, *commands, code=WATCH)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\0")[:-1], done.stderr


HELP = ("--help", "run --help", "compare --help", "bench --help", "paper --help", "ls", "data ls", "--version")


def test_no_torch_to_show_help():
    printed, warned = without_loading("torch sklearn matplotlib scipy safetensors", *HELP)
    assert len(printed) == len(HELP)
    for words, text in zip(HELP, printed, strict=True):
        assert text.strip(), words
    assert warned == ""


def test_help_names_every_setting_with_its_default(moca):
    from moca.settings import Run

    code, out, _ = moca("run", "--help")
    assert code == 0
    for name in Run.model_fields:
        assert f"--{name.replace('_', '-')}" in out
    assert "[default: er]" in out
    assert "[default: the recipe's]" in out
    assert "learning rate [number]" in out
    assert "eager|captured" in "".join(out.split()).replace("│", "")


def test_help_shows_first_what_is_used_first(moca):
    """Commands and options are grouped, and those of daily use come before those of experts."""
    _, out, _ = moca("--help")
    listed = [line.split()[1] for line in out.splitlines() if line.startswith("│ ") and line[2] != " "]
    assert listed[:3] == ["demo", "run", "compare"] and listed[-3:] == ["bench", "--help", "--version"]
    assert " Commands " not in out, "every command has a group"
    _, out, _ = moca("run", "--help")
    places = [out.index(f"│ --{name} ") for name in ("data", "learner", "perturb", "epochs", "record", "seed", "out")]
    assert places == sorted(places)


def test_ls_names_everything_with_a_line_and_its_paper(moca):
    from moca.cli.parts import lines as all_lines

    code, out, _ = moca("ls")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("   ")}
    assert "scikit-learn" in lines["digits"]
    text = " ".join(out.split())
    assert {"er", "wap", "resnet18", "cosine", "adam", "steps"} <= {n for kind in all_lines().values() for n in kind}
    for entries in all_lines().values():
        for name, (about, paper) in entries.items():
            assert name in lines
            assert f"{name} {about}{f' ({paper})' * bool(paper)}" in text
    assert "er_ace ER-ACE: experience replay with asymmetric cross-entropy" in text
    assert "(Caccia et al., ICLR 2022)" in text
    assert "docs/methods/NAME.md" in out


PAPERS = [
    ("Caccia et al., ICLR 2022, arXiv 2104.05025.", "Caccia et al., ICLR 2022"),
    ("Zhu et al., CVPR 2021 (Prototype Augmentation).", "Zhu et al., CVPR 2021"),
    ("Li and Hoiem, ECCV 2016, arXiv 1606.09282.", "Li and Hoiem, ECCV 2016"),
    ("Gu, Shim and Shkurti, CVPR 2023, arXiv 2303.14595.", "Gu et al., CVPR 2023"),
    ("Zheng et al., Some Title, ICML 2024.", "Zheng et al., ICML 2024"),
    ("Kirk et al., PNAS 2017, arXiv 1612.00796; then: Schwarz, ICML 2018.", "Kirk et al., PNAS 2017"),
    ("A thesis, unpublished.", "A thesis, unpublished."),
    ("", ""),
]


@pytest.mark.parametrize(("paper", "short"), PAPERS)
def test_a_paper_in_short(paper, short):
    from moca.cli.parts import in_short

    assert in_short(paper) == short


def test_ls_of_a_learner_says_all_about_it(moca):
    code, out, _ = moca("ls", "er_ace")
    assert code == 0
    assert out.startswith("er_ace (learner). ER-ACE: experience replay with asymmetric cross-entropy; ")
    assert "\nPaper: Caccia et al., ICLR 2022, arXiv 2104.05025.\nCard: docs/methods/er_ace.md\n" in out
    text = " ".join(out.split())
    assert "Options er_ace:adjust=0.0 [number|auto] logit adjustment at test time" in text
    assert "er_ace:mask=unseen [unseen|official] classes that compete in addition to the batch's" in text
    assert "Recipes by protocol; settings you give take precedence offline --lr 0.03" in text
    assert "Refuses" not in text


def test_ls_of_a_learner_says_what_it_refuses_and_why(moca):
    _, out, _ = moca("ls", "finetune")
    assert "Refuses every perturbation it replays nothing, so there is nothing to move" in " ".join(out.split())
    _, out, _ = moca("ls", "pass")
    text = " ".join(out.split())
    assert "small --head linear --optimiser adam:weight_decay=2e-4 --lr 0.001" in text
    assert "wap it passes the old samples through other weights, and prototypes have no images" in text


def test_ls_of_a_perturbation(moca):
    code, out, _ = moca("ls", "wap")
    assert code == 0
    text = " ".join(out.split())
    assert "Paper: Yu et al., TMLR 2023, arXiv 2210.05398." in text
    assert "wap:lambda=2.0 [number] length of the unit direction" in text
    assert "wap:radius [number] epsilon" in text, "no value by default"
    assert "online wap:lambda=0.8" in text
    assert re.search(r"Refused by .*finetune, joint.* it replays nothing, so there is nothing to move", text)
    assert "every learner" not in text


def test_what_ls_says_is_refused_is_what_a_run_refuses():
    from moca.cli.parts import about
    from moca.errors import MocaError
    from moca.parts import LEARNERS, PERTURBATIONS
    from moca.settings import Run, validate

    moving = [name for name in PERTURBATIONS.built_in if name != "none"]
    by = {name: {who for names, _ in about(name)[0].refused for who in names.split(", ")} for name in moving}
    for learner in LEARNERS.built_in:
        told = set()
        for names, _ in about(learner)[0].refused:
            told |= set(moving) if names == "every perturbation" else set(names.split(", "))
        refused = set()
        for perturb in moving:
            try:
                validate(Run, {"learner": learner, "perturb": perturb})
            except MocaError:
                refused.add(perturb)
        assert told == refused, learner
        assert told == {perturb for perturb in moving if learner in by[perturb]}


def test_ls_of_what_is_no_method(moca):
    text = " ".join(moca("ls", "resnet18")[1].split())
    assert text.startswith("resnet18 (model). ResNet-18") and "resnet18:width=64 [whole number]" in text
    assert "Card" not in text
    text = " ".join(moca("ls", "cosine")[1].split())
    assert "cosine (head). " in text and "cosine:scale=1.0" in text
    assert "cosine (schedule). " in text and "cosine:final=0.0" in text
    text = " ".join(moca("ls", "none")[1].split())
    assert "none has no options" in text and "Card" not in text


def test_ls_of_a_data_set(moca, monkeypatch, tmp_path):
    monkeypatch.setenv("MOCA_DATA", str(tmp_path / "store"))
    text = " ".join(moca("ls", "cifar100")[1].split())
    assert text.startswith(
        "cifar100 (data set). CIFAR-100, fine labels, 100 classes, 60,000 images of 32x32 Not stored;"
    )
    assert (
        "get it with: moca data add cifar100 Recipes by protocol; settings you give take precedence offline 5 tasks "
        "--epochs 50" in text
    )
    text = " ".join(moca("ls", "digits")[1].split())
    assert "Learn it: moca run --data digits. See it: moca data show digits" in text and "options" not in text
    assert "small 5 tasks --model convnet --epochs 20" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("er_aces", "nothing is called 'er_aces'; did you mean 'er_ace'?"),
        ("cifar1000", "nothing is called 'cifar1000'; did you mean 'cifar100'?"),
        ("zzzz", "nothing is called 'zzzz'; moca ls, without a name, lists what there is"),
        ("mocka", "nothing is called 'mocka'; moca ls, without a name"),
        ("naive", "nothing is called 'naive'; it is called --learner finetune here"),
        ("seq-mnist", "nothing is called 'seq-mnist'; it is --data mnist here"),
    ],
)
def test_ls_of_an_unknown_name_is_one_line(moca, name, says):
    code, out, err = moca("ls", name)
    assert (code, out) == (1, "")
    assert err.startswith(f"moca: {says}") and err.count("\n") == 1


def test_ls_shows_what_is_written_with_options_and_several_names(moca):
    assert moca("ls", "wap:lambda=1")[1] == moca("ls", "wap")[1]
    heads = moca("ls", "heads")
    assert heads[0] == 0 and "cosine" in heads[1] and "er_ace" not in heads[1]
    both = moca("ls", "er", "wap")
    assert both == (0, moca("ls", "er")[1] + moca("ls", "wap")[1], "")


def test_the_help_of_ls_says_what_it_shows(moca):
    text = " ".join(moca("ls", "--help")[1].split())
    assert "a summary, the paper, the path of the card, the options with their defaults, the recipes" in text


def test_a_run(moca, tmp_path):
    code, out, err = moca("run", *FAST, "--perturb", "gaussian:lambda=1.5", "--seed", 3, "--out", "a")
    assert code == 0
    result = json.loads((tmp_path / "a" / "result.json").read_text())
    assert f"{100 * result['final_accuracy']:.2f} %" in out
    assert "backward transfer (BWT) " in out
    assert "task-incremental accuracy " in out
    assert "Run folder: a" in out
    assert "/s" in err
    settings = json.loads((tmp_path / "a" / "settings.json").read_text())
    assert settings["perturb"]["lambda"] == 1.5
    assert settings["seed"]["seed"] == 3


def test_the_same_run_as_from_python(moca, tmp_path):
    import moca as package

    moca("run", *FAST, "--learner", "derpp:alpha=0.2", "--augment", "false", "--schedule", "steps:at=1,2", "--out", "a")
    keywords = dict(zip((w[2:] for w in FAST[::2]), FAST[1::2], strict=True))
    other = package.run(**keywords, learner="derpp:alpha=0.2", augment=False, schedule="steps:at=1,2", out="b")
    mine = package.Result.load("a")
    assert mine.settings == other.settings
    assert mine.accuracy_matrix == other.accuracy_matrix


def test_a_note_is_printed(moca):
    code, out, _ = moca("run", *FAST[:2], "--memory", 5000, "--epochs", 1, "--out", "a")
    assert code == 0
    assert "Note: the memory is as large as all training data" in out


def test_a_memory_that_is_not_used_is_told_and_stops_nothing(moca):
    told = "the memory given is not used by finetune: no samples are kept"
    assert told in moca("run", *FAST, "--learner", "finetune", "--out", "a")[2]
    code, _, err = moca("compare", *FAST, "--learner", "er", "finetune", "--seeds", 1, "--out", "b")
    assert code == 0
    assert err.count(told) == 1


MISTAKES = [
    ("run --learner err", "unknown learner 'err'; did you mean 'er'?"),
    ("run --perturb gausian", "unknown perturbation 'gausian'; did you mean 'gaussian'?"),
    ("run --data digit", "unknown data set 'digit' (there is no folder of that name either); did you mean 'digits'?"),
    ("run --model resnet", "unknown model 'resnet'; did you mean 'resnet18'?"),
    ("run --head cosin", "unknown head 'cosin'; did you mean 'cosine'?"),
    ("run --learnr er", "Did you mean --learner?"),
    ("rum", 'Did you mean "run"?'),
    ("run --perturb gaussian:lamda=1", "unknown option 'lamda' of 'gaussian'; did you mean 'lambda'?"),
    ("run --perturb gaussian:1.5", "expected option=value"),
    ("run --perturb gaussian:lambda=-1", "perturb.lambda = '-1'"),
    ("run --perturb gaussian:lambda=nan", "perturb.lambda = 'nan'"),
    ("run --perturb gaussian:lambda=inf", "perturb.lambda = 'inf'"),
    ("run --perturb gaussian:lambda=far", "perturb.lambda = 'far': must be a number"),
    ("run --perturb gaussian,lambda=2", "'gaussian,lambda=2': options follow a colon: gaussian:lambda=2"),
    ("run --seed one", "seed = 'one': must be a whole number"),
    ("run --augment maybe", "augment = 'maybe': must be true or false"),
    ("run --memory 0", "memory must be at least 1 (it is 0)"),
    ("run --memory -5", "memory.size = '-5'"),
    ("run --tasks 11", "'digits' has 10 classes, too few for 11 tasks; use tasks <= 10"),
    ("run --tasks 0", "tasks = '0'"),
    ("run --learner er+wap:lambda=2", "give two settings, --learner er and --perturb wap:lambda=2"),
    ("run --class-order foo", "known: natural, random (or class numbers)"),
    ("run --out used/file", "folder 'used/file' cannot be written: 'used/file' is a file"),
    ("run --class-order 1,2", "each of the classes 0 to 9 exactly once"),
    ("run --epochs many", "epochs = 'many'"),
    ("run --lr nan", "lr = 'nan'"),
    ("run --device cudaa", "unknown device 'cudaa'"),
    ("run --device mps", "unknown device 'mps'; use cpu, cuda or auto"),
    ("run --threads 100000", "threads = '100000'"),
    ("run --schedule steps:at=3,-3", "schedule.at = '-3'"),
    ("run --schedule stepps", "unknown schedule 'stepps'; did you mean 'steps'?"),
    ("run --optimiser sgd:momentun=0.9", "unknown option 'momentun' of 'sgd'; did you mean 'momentum'?"),
    ("run --perturb wap:steps=1000000000", "perturb.steps = '1000000000': must be 100 or less"),
    ("run --seeds 3", "use moca compare"),
    ("run --jobs 2", "use moca compare"),
    ("run --learner er derpp", "use moca compare"),
    ("run --learner nowhere.Mine", "learner 'nowhere.Mine' cannot be loaded: there is no such module here"),
    ("run --learner json.Mine", "module 'json' has no class or function 'Mine'"),
    ("run --model json.dumps", "model"),
    ("run --config nowhere.toml", "cannot read nowhere.toml"),
    ("run --config used/file", "used/file is not what its name says"),
    ("run --save-config used/file", "'used/file' must end in .toml, .yaml or .json"),
    ("run --data ", "data is empty"),
    ("compare --empty-seed", "Unknown option"),
    ("compare --lambda 0.5 1", "--lambda is an option of what --perturb names: --perturb NAME:lambda=... (moca ls"),
    ("run --weight-decay=1e-4", "--weight-decay is an option of what --optimiser names: --optimiser NAME:weight_decay"),
    ("run --buffer_size 200", "--buffer_size is called --memory here."),
    ("run --minibatch-size 32", "--minibatch-size is called --replay-batch here."),
    ("run --name mine", "--name is called --out here."),
    ("run --learning_rate 0.1", "--learning_rate is called --lr here."),
    ("run --train-mb-size 10", "--train-mb-size is called --batch here."),
    ("run --joint 1", "--joint is a learner here: --learner joint."),
    ("run --permute_classes 1", "--permute_classes is an order of classes here: --class-order random."),
    ("run --momentum 0.9", "--momentum is an option of what --optimiser names: --optimiser NAME:momentum=..."),
    ("run --learner sgd", "unknown learner 'sgd'; it is called --learner finetune here"),
    ("run --learner Naive", "unknown learner 'Naive'; it is called --learner finetune here"),
    ("run --learner replay", "unknown learner 'replay'; it is called --learner er here"),
    ("run --model sgd", "unknown model 'sgd'; it is called --learner finetune here"),
    ("run --data split_mnist", "it is --data mnist here, which --tasks splits"),
    ("run --data seq-tinyimg", "it is --data tinyimagenet here, which --tasks splits"),
    ("run --data FMNIST", "(there is no folder of that name either); it is --data fashion_mnist here"),
    (
        "run --data PermutedMNIST",
        "from mnist, moca.domain_incremental makes it in Python, of one data set for each task",
    ),
    ("run --task 5", "Unknown option: --task. Did you mean --tasks?"),
    ("run --model derpp", "unknown model 'derpp'; it is a learner: --learner derpp"),
    ("compare --seeds 0 1 2", "unexpected arguments '1', '2'; --help shows what can be given. --seeds sets how many"),
    (
        "compare --perturb gaussian:lambda=0.5,1",
        "perturb.lambda = '0.5,1': must be a number; moca compare takes several",
    ),
    ("run --lr 0.1,0.03", "lr = '0.1,0.03': must be a number; moca compare takes several values, separated by"),
    (
        "compare --learner er,derpp",
        "unknown learner 'er,derpp'; moca compare takes several values, separated by",
    ),
    ("compare --seeds 0,1,2", "--seeds 0,1,2 is not a whole number; for these seeds use --seed 0 1 2."),
    ("compare --seed 0,1,2", "--seed 0,1,2 is not a whole number; for these seeds use --seed 0 1 2."),
    ("run --learner xyz", "unknown learner 'xyz'; known: agem, "),
    ("run --image-size 16", "'digits' is stored in its own size"),
    ("data check digits", "'digits' is inside the package"),
    ("run --bn-passes official --learner er_ace", "use --bn-passes clean"),
    ("run extra", "extra"),
    ("run used", "unexpected argument 'used'; to train on it, use --data used"),
    ("compare a]b", "unexpected argument 'a]b'; --help shows what can be given."),
    ("data add used", "'used' is a path; give your data a name as well: moca data add NAME --from used"),
    ("data add pets", "'pets' is no known data set, so say where it is with --from; known: "),
    ("data add pets --from ", "--from is empty; give a folder, a file or npm:PACKAGE"),
    ("data add pets --from used --test-share 1", "--test-share 1.0 is out of range"),
    ("data show digits --per-class 0", "a sheet shows at least 1 image of each class (--per-class 0)"),
    ("data check cifar10", "; add it with: moca data add cifar10\n"),
    ("run --data cifar10", "'cifar10' is not in the store yet; add it with: moca data add cifar10\n"),
    ("compare --methods er --learner er", "--methods names learners and perturbations; leave out --learner and"),
    ("run --out used", "run folder 'used' is already used"),
    ("run --out used/file/run", "cannot be written"),
    ("resume used", "'used' is not a run folder"),
    ("resume nowhere", "'nowhere' is not a run folder"),
    ("compare --perturb none gausian", "did you mean 'gaussian'?"),
    ("compare --seeds 3.5", "--seeds 3.5 is not a whole number"),
    ("compare --seed 0 1.5", "--seed 1.5 is not a whole number"),
    ("compare --jobs 1.6", "--jobs 1.6 is not a whole number"),
    ("predict used used --top 1.5", "--top 1.5 is not a whole number"),
    ("compare --seeds 3 --seed 5", "give --seeds, how many there are, or --seed, which ones; not both"),
    ("compare --seeds 0", "nothing to run"),
    ("compare --jobs 0", "jobs must be a whole number from 1 on (it is 0)"),
    ("compare --jobs 0 --dry-run", "jobs must be a whole number from 1 on (it is 0)"),
    ("compare --track tensorbord --dry-run", "unknown tracker 'tensorbord'; did you mean 'tensorboard'?"),
    ("compare --seed 1 1", "'er' with seed 1 is given twice"),
    ("learn used --modle m", "there is no option --modle; did you mean --model?"),
    ("run --perturb", "--perturb needs a value: how replayed old-class features are moved"),
    ("run --record", "--record needs a value: what to record"),
    ("run --record --epochs 1", "any of: angles, gradients, perturbation, batch_norm, weights"),
    ("run --track --epochs 1", "--track needs a value: "),
    ("compare --record --epochs 1", "--record needs a value: "),
    ("compare --seed --epochs 1", "--seed needs a value: "),
    ("paper run table2 --record --dry-run", "--record needs a value: "),
    ("analyse used --only", "--only needs a value: see moca analyse --help"),
    ("runs --state", "--state needs a value: "),
    ("analyse", "analyse needs RUNS: see moca analyse --help"),
    ("model show", "model show needs MODEL: folder of a model"),
    ("run --protocol small", "it has only a recipe, which applies by itself; leave out --protocol (one pass a task is"),
    ("run --protocol proxy", "(one pass a task is --epochs 1, prototypes in place of a memory are --learner pass)"),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES)
def test_a_mistake_is_one_line_on_stderr_and_an_exit_code(moca, tmp_path, words, says):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("mine")
    code, out, err = moca(*(words.split(" ") if words.endswith(" ") else words.split()))
    assert code in (1, 2)
    assert out == ""
    assert err.startswith("moca: ")
    assert err.count("\n") == 1, err
    assert says in err
    assert [p.name for p in tmp_path.iterdir()] == ["used"], "nothing is left behind"


def test_cuda_where_there_is_none(moca, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, out, err = moca("run", "--device", "cuda")
    assert (code, out) == (1, "")
    assert err == "moca: no CUDA device can be used here; use --device cpu or --device auto\n"


def test_an_image_that_spoils_a_folder_is_told_with_what_can_be_typed(moca, tmp_path):
    """In Python and on the command line, each in its words."""
    for name in ("cat", "dog"):
        (tmp_path / "my pets" / name).mkdir(parents=True)
        for size in (8, 9):
            Image.new("RGB", (size, size), (size, 0, len(name))).save(tmp_path / "my pets" / name / f"{size}.png")

    def told():
        with pytest.raises(MocaError) as refused:
            load("my pets")
        return str(refused.value).partition("; ")[2], moca("run", "--data", "my pets")[2].partition("; ")[2]

    assert told() == (
        "bring all to one size with size= (image_size= of a run)",
        "bring all to one size with --size (--image-size of a run)\n",
    )
    (tmp_path / "my pets" / "cat" / "1.png").write_text("hello")
    path = tmp_path / "my pets"
    assert told() == (
        f"mend it, or leave it out with skip_bad=True (an option of moca.data.add('NAME', '{path}'); then use "
        "data=NAME)",
        f"mend it, or leave it out with --skip-bad (an option of moca data add NAME --from '{path}'; then use "
        "--data NAME)\n",
    )


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("leave out learner= and perturb=", "leave out --learner and --perturb"),
        ("data_dir= or skip_bad=True; track=mlflow:uri=x", "--data-dir or --skip-bad; --track mlflow:uri=x"),
        ("continue with: moca.resume('runs/it is')", "continue with: moca resume 'runs/it is'"),
        ("""moca.data.add('NAME', "Ann's")""", """moca data add NAME --from 'Ann'"'"'s'"""),
        ("moca.resume_comparison('a b') resumes it", "moca resume 'a b' resumes it"),
        ("moca.resume() needs a folder", "moca.resume() needs a folder"),
        ("moca.resume(folder, data=...)", "moca.resume(folder, data=...)"),
        ("moca.resume('runs/mine', data=..., model=...)", "moca.resume('runs/mine', data=..., model=...)"),
        ("a moca.Batch(features=h, memory=...) with lr=0.1", "a moca.Batch(features=h, memory=...) with --lr 0.1"),
    ],
)
def test_messages_of_python_are_told_as_one_would_type_them_unless_only_python_can(python, typed):
    assert as_options(python) == typed


def test_a_mistake_in_a_real_process_has_no_traceback():
    done = in_a_process("ls", "er_aces")  # which needs no torch
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "moca: nothing is called 'er_aces'; did you mean 'er_ace'?\n"


def test_a_run_that_diverges_says_where_and_fails(moca, tmp_path):
    code, _, err = moca("run", *FAST, "--head", "linear", "--lr", "1e30", "--out", "a")
    assert code == 3
    message = err.splitlines()[-1]
    assert message.startswith("moca: the loss is no longer a finite number at step ")
    assert json.loads((tmp_path / "a" / "result.json").read_text())["status"] == "diverged"
    assert (tmp_path / "a" / "tasks.jsonl").is_file()


def test_a_comparison(moca, tmp_path):
    arguments = ("compare", *FAST, "--perturb", "none", "vt", "--seeds", 2, "--out", "c")
    code, out, _ = moca(*arguments)
    assert code == 0
    entries = json.loads((tmp_path / "c" / "comparison.json").read_text())
    for entry in entries:
        assert f"{100 * entry['final_accuracy']['mean']:.2f}" in out
    assert [e["method"] for e in entries] == ["er", "er+vt"]
    assert (tmp_path / "c" / "report.html").read_text().startswith("<!")
    cost = json.loads((tmp_path / "c" / "cost.json").read_text())
    (told,) = [line for line in out.splitlines() if "images/s" in line]
    assert told == f"4 runs in {cost['seconds']:.1f} s: {cost['images_per_second']:,.0f} images/s in total."
    again, out_again, _ = moca(*arguments)
    assert again == 0
    assert out_again == out.replace(f"{told}\n", ""), "finished runs are taken as they are, and cost nothing"


def test_a_comparison_of_one_method_says_how_to_compare(moca):
    code, out, _ = moca("compare", *FAST, "--seeds", 1, "--out", "c")
    told = "One method, so nothing is compared; give an option several values, for example: "
    (line,) = [line for line in out.splitlines() if told in line]
    words = shlex.split(line.removeprefix(told))
    assert (code, words[:2]) == (0, ["moca", "compare"])
    assert told not in moca("report", "c")[1], "where it is what was asked for"
    code, out, _ = moca(*words[1:], *FAST, "--seeds", 1, "--out", "d")
    assert (code, told in out) == (0, False)
    assert re.search(r"er\+\w+ (gains most over|loses least against) er", out)


def test_a_report_that_cannot_be_written_costs_neither_table_nor_reasons(moca, tmp_path):
    (tmp_path / "c" / "report.html").mkdir(parents=True)
    code, out, err = moca("compare", *FAST, "--lr", "0.03", "1e30", "--seeds", 1, "--out", "c")
    assert code == 1
    assert "er lr=0.03" in out
    assert "er_lr=1e+30-s0: " in err
    assert "report.html' cannot be written: Is a directory; fix that and try again, or choose another with --out" in err


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_terminal_without_plus_minus_costs_nothing_else(moca, tmp_path, monkeypatch, errors):
    """As PYTHONIOENCODING=ascii makes it, or the locale C."""
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=errors, write_through=True)
    monkeypatch.setattr(sys, "stdout", terminal)
    code, _, err = moca("compare", *FAST, "--seeds", 2, "--out", "a")
    assert code == 0, err
    assert b"mean ? standard deviation" in terminal.buffer.getvalue()
    assert (tmp_path / "a" / "report.html").is_file()


def test_help_says_what_runs_at_a_time_means(moca):
    _, out, _ = moca("compare", "--help")
    assert "processes on a CPU (default 1), packed on a GPU (default 8)" in " ".join(out.replace("│", " ").split())


def test_a_dry_run_says_what_is_left_and_writes_nothing(moca, tmp_path):
    on_gpu = ["cuda" if word == "cpu" else word for word in FAST]  # which need not be there
    code, out, err = moca(
        "compare", *on_gpu, "--perturb", "none", "vt", "--seeds", 3, "--save-config", "c.toml", "--dry-run"
    )
    assert (code, err) == (0, "'c.toml' is not written, as --dry-run only prints\n")
    assert out.startswith("digits: lr 0.03, optimiser sgd, ")
    assert list(tmp_path.iterdir()) == []
    moca("compare", *FAST, "--seeds", 2, "--out", "c")
    steps = json.loads((tmp_path / "c" / "er-s0" / "result.json").read_text())["steps"]
    assert f"\n6 runs, {6 * steps} steps in all.\n" in out
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "c" / "er-s1" / "result.json").unlink()
    again = ("compare", *FAST, "--perturb", "none", "vt", "--seeds", 3, "--out", "c")
    code, out, _ = moca(*again, "--dry-run")
    rows = [line.split() for line in out.splitlines()]
    assert ["er", "1,", "2", str(2 * steps)] in rows and ["er+vt", "0,", "1,", "2", str(3 * steps)] in rows
    assert out.endswith(f"\n5 runs, {5 * steps} steps in all, 1 of them begun before; 1 done before.\n")
    assert {*before} - {*tmp_path.rglob("*")} == {tmp_path / "c" / "er-s1" / "result.json"}
    assert not {*tmp_path.rglob("*")} - {*before}
    assert moca("compare", *FAST, "--seed", 0, "--out", "c", "--dry-run")[0] == 1, "that is not all that is there"
    assert moca("compare", *FAST, "--seeds", 2, "--lr", 0.1, "--out", "c", "--dry-run")[0] == 1


def test_a_dry_run_with_a_choice_says_what_is_run_before_it_and_after(moca, tmp_path):
    code, out, _ = moca("compare", *FAST, "--perturb", "none", "vt:lambda=1", "vt:lambda=2", "--seeds", 2,
                        "--choose", "0.1:seeds=3", "--dry-run")  # fmt: skip
    assert (code, list(tmp_path.iterdir())) == (0, [])
    rows = [line.split()[:4] for line in out.splitlines()]
    assert ["er+vt:lambda=2.0", "1000,", "1001,", "1002"] in rows and ["er"] not in [row[:1] for row in rows]
    assert "\n6 runs, " in out
    assert out.endswith("\nTest images: the best combination of each method, 4 runs.\n")


def test_a_comparison_with_a_diverging_run_goes_on_and_its_exit_code_says_whether_anything_is_left(moca, tmp_path):
    code, out, err = moca("compare", *FAST, "--head", "linear", "--lr", "1e30", "0.1", "--seed", 4, "--out", "c")
    assert code == 3
    assert "no longer a finite number" in err
    entries = json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert [e["not_finished"] for e in entries] == [1, 0]
    assert f"{100 * entries[1]['final_accuracy']['mean']:.2f}" in out
    assert moca("resume", "c")[0] == 3, "nothing is left to do"
    os.truncate(tmp_path / "c" / "er_lr=0.1-s4" / "result.json", 100)
    assert moca("resume", "c")[0] == 1, "once the file is removed, this run is done again"
    (tmp_path / "c" / "er_lr=0.1-s4" / "result.json").unlink()
    assert moca("resume", "c")[0] == 3


OWN = """
from moca import Learner, Perturbation, Watcher, option
from torch import nn
from torch.nn.functional import cross_entropy

class Mine(Learner):
    "Replays, weighted."
    weight: float = option(1.0, "of what is replayed", ge=0)

    def losses(self, new, *replays):
        losses = {"new": cross_entropy(new.logits, new.y)}
        for replay in replays:
            f = self.perturbed(replay, new)
            losses["replay"] = self.weight * cross_entropy(self.model.classify(f), replay.y)
        return losses

class Opposite(Perturbation):
    "Away from where it is."
    def direction(self, replay, new):
        return -replay.features

def net(shape, width: int = 8):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], width), nn.ReLU())
"""


def test_own_parts_by_their_dotted_paths(moca, tmp_path, monkeypatch):
    (tmp_path / "mypackage.py").write_text(OWN)
    words = ["run", *FAST[2:], "--learner", "mypackage.Mine:weight=0.5", "--model", "mypackage.net:width=5"]
    words += ["--perturb", "mypackage.Opposite:lambda=0.5", "--out", "a"]
    Image.new("L", (8, 8)).save("one.png")
    without_loading("torch._dynamo sklearn matplotlib scipy pandas", " ".join(words), "predict a one.png")
    kept = json.loads((tmp_path / "a" / "settings.json").read_text())
    assert kept["learner"] == {"name": "mypackage.Mine", "weight": 0.5, "adjust": 0}
    assert kept["model"] == {"name": "mypackage.net", "width": 5}
    assert kept["perturb"]["name"] == "mypackage.Opposite"
    monkeypatch.syspath_prepend(tmp_path)
    _, _, err = moca("run", "--learner", "mypackage.Mine:weight=-1")
    assert err == "moca: learner.weight = '-1': must be 0 or more\n"
    _, out, _ = moca("ls", "mypackage.Mine")
    assert "\n   weight=1.0 " in out
    del sys.modules["mypackage"]


@pytest.mark.parametrize("kind", ["toml", "yaml", "json"])
def test_options_from_a_file_and_to_one(moca, tmp_path, kind):
    path = f"options.{kind}"
    given = ("--perturb", "vt:lambda=0.5", "--lr", "0.05", "--augment", "false", "--save-config", path)
    code, _, _ = moca("run", *FAST, *given, "--out", "a")
    assert code == 0
    code, _, _ = moca("run", "--config", path, "--lr", "0.2", "--out", "b")
    assert code == 0
    one, other = (json.loads((tmp_path / name / "settings.json").read_text()) for name in "ab")
    assert (one["lr"], other["lr"]) == (0.05, 0.2), "what is given on the command line wins"
    assert one | {"lr": 0} == other | {"lr": 0}


def test_the_settings_of_a_run_are_options_of_another(moca, tmp_path):
    moca("run", *FAST, "--learner", "derpp:alpha=0.3", "--perturb", "vt", "--seed", "3", "--out", "a")
    assert moca("run", "--config", "a/settings.json", "--out", "b", "--save-config", "again.toml")[0] == 0
    assert moca("run", "--config", "again.toml", "--out", "c")[0] == 0
    one, *others = (json.loads((tmp_path / name / "settings.json").read_text()) for name in "abc")
    assert [one, one] == others
    words = ("compare", "--config", "a/settings.json", "--seed", "5", "--save-config", "several.toml", "--out", "d")
    assert moca(*words)[0] == moca("compare", "--config", "several.toml", "--out", "e")[0] == 0
    compared = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("[de]/*/settings.json"))]
    assert compared == 2 * [one | {"seed": one["seed"] | {"seed": 5}}]


@pytest.mark.parametrize("kind", ["toml", "yaml", "json"])
def test_numbers_are_written_as_numbers_and_read_from_text_too(moca, tmp_path, kind):
    path = f"options.{kind}"
    more = ("--lr", "0.03", "1e-5", "--augment", "false", "--tasks", "2", "--seed", "3", "--perturb", "vt:lambda=1")
    words = ("compare", *FAST[:4], *FAST[6:], *more, "--data-dir", "7")
    assert moca(*words, "--out", "c", "--save-config", path)[0] == 0
    saved = config.read(tmp_path / path)
    given = {name: saved[name] for name in ("epochs", "memory", "augment", "tasks", "seeds", "perturb", "data_dir")}
    assert given == {
        "epochs": 1, "memory": 20, "augment": False, "tasks": 2, "seeds": [3], "perturb": "vt:lambda=1", "data_dir": "7"
    }  # fmt: skip
    assert [float(rate) for rate in saved["lr"]] == [0.03, 1e-5] and (kind == "yaml" or saved["lr"] == [0.03, 1e-5])
    assert moca(*words, "--out", "c", "--save-config", path)[0] == 0, "the same again"
    text = {name: [str(one) for one in value] if isinstance(value, list) else str(value).lower()
            for name, value in saved.items()}  # fmt: skip
    (tmp_path / "text.json").write_text(json.dumps(text | {"jobs": "1"}))
    assert moca("compare", "--config", "text.json")[0] == 0, "they are the same runs"
    (tmp_path / "text.json").write_text(json.dumps(text | {"seeds": "2", "out": "d"}))
    assert moca("compare", "--config", "text.json")[0] == 0
    assert [e["seeds"] for e in json.loads((tmp_path / "d" / "comparison.json").read_text())] == [2, 2]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", '{"epochs": 1, "lr": 0.1, "epochs": 2}'),
        ("c.yaml", "epochs: 1\nlr: 0.1\nepochs: 2\n"),
        ("c.toml", "replay-batch = 1\nreplay_batch = 2\n"),
    ],
)
def test_an_option_that_a_file_has_twice_is_refused(moca, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    twice = "replay_batch" if "toml" in name else "epochs"
    assert moca("run", "--config", name) == (1, "", f"moca: '{twice}' is given twice in {name}; remove one of them\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed = 1.5", "seed = '1.5': must be a whole number"),
        ("epochs = true", "epochs = 'true': must be a whole number"),
        ("seeds = true", "seeds must be a whole number, or several (they are True)"),
        ("seeds = 1.5", "seeds must be a whole number, or several (they are 1.5)"),
        ("jobs = true", "jobs must be a whole number from 1 on (it is True)"),
    ],
)
def test_a_value_of_another_kind_in_a_file_is_refused(moca, tmp_path, text, says):
    (tmp_path / "c.toml").write_text(text)
    code, _, err = moca("run" if text.startswith(("seed ", "epochs")) else "compare", "--config", "c.toml")
    assert (code, err) == (1, f"moca: {says}\n")


@pytest.mark.parametrize("kind", ["toml", "yaml", "json"])
def test_options_are_not_written_over_others(moca, tmp_path, kind):
    path = tmp_path / f"options.{kind}"
    words = ("run", *FAST, "--save-config", path)
    assert moca(*words)[0] == moca(*words)[0] == 0, "the same again"
    before = path.read_text()
    said = f"moca: '{path}' already exists with other options; remove it, or choose another --save-config\n"
    assert moca(*words, "--lr", "0.2", "--out", "a") == (1, "", said)
    assert path.read_text() == before
    assert not (tmp_path / "a").exists()


def test_options_that_the_disk_has_no_room_for_leave_no_file(moca, tmp_path, full_disk):
    """A part of it would be in the way of the next command."""
    full_disk("mine.toml")
    told = "moca: 'mine.toml' cannot be written: No space left on device; choose another --save-config\n"
    assert moca("run", *FAST, "--save-config", "mine.toml") == (1, "", told)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_command_that_is_refused_writes_no_options(moca, tmp_path, command):
    """They would be in the way of the same command put right."""
    words = (command, *FAST, "--save-config", "mine.toml")
    assert moca(*words, "--perturb", "gausian")[0] == 1
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.toml").write_text('perturb = "gausian"\n')
    assert moca(command, "--config", "mine.toml", "--save-config", "mine.toml")[0] == 1
    assert (tmp_path / "mine.toml").read_text() == 'perturb = "gausian"\n', "one's own stays"


def test_an_equal_config_file_is_kept(moca, tmp_path):
    mine = 'epochs = 1 # quick\n[model]\nname = "mlp"\nwidth = 8\n'
    (tmp_path / "mine.toml").write_text(mine)
    assert moca("run", "--config", "mine.toml", "--save-config", "mine.toml")[0] == 0
    assert (tmp_path / "mine.toml").read_text() == mine


def test_a_file_with_lists_is_a_comparison(moca, tmp_path):
    (tmp_path / "c.toml").write_text(
        'model = "mlp:width=8,depth=1,features=4"\nepochs = 1\nperturb = ["none", "vt"]\nbatch = 64\n'
    )
    code, _, _ = moca("compare", "--config", "c.toml", "--seeds", 1, "--out", "c")
    assert code == 0
    assert [e["method"] for e in json.loads((tmp_path / "c" / "comparison.json").read_text())] == ["er", "er+vt"]
    code, _, err = moca("run", "--config", "c.toml")
    assert (code, err) == (
        1,
        "moca: a run has one perturb; to run several, use moca compare\n",
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("words", ["ls", "--help", "data ls"])
def test_an_output_that_is_full_is_one_line(words):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "moca", *words.split()], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "moca: the output cannot be written: No space left on device\n"


def test_the_run_says_what_was_chosen_for_it(moca):
    code, _, err = moca("run", *FAST[:2], "--epochs", 1, "--memory", 25, "--out", "a")
    assert code == 0
    (line,) = [line for line in err.splitlines() if line.startswith("digits: ")]
    assert "lr 0.03" in line
    assert "'small' recipe" in line
    assert "epochs" not in line, "what was given is not told"


def test_a_file_can_say_how_many_seeds_and_where(moca, tmp_path):
    words = ("compare", *FAST, "--perturb", "none", "vt", "--seeds", 2, "--out", "c", "--save-config", "c.toml")
    assert moca(*words)[0] == 0
    (tmp_path / "c").rename(tmp_path / "first")
    assert moca("compare", "--config", "c.toml")[0] == 0
    one, other = ((tmp_path / name / "comparison.json").read_text() for name in ("first", "c"))
    assert [e["final_accuracy"] for e in json.loads(one)] == [e["final_accuracy"] for e in json.loads(other)]
    assert json.loads(one)[0]["seeds"] == 2


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("compare", "job", "unknown option 'job' in c.toml; did you mean 'jobs'?"),
        ("compare", "tracks", "unknown option 'tracks' in c.toml; did you mean 'track'?"),
        ("run", "outt", "unknown option 'outt' in c.toml; did you mean 'out'?"),
        ("compare", "progress", "'progress' in c.toml is an argument in Python only; remove it"),
        ("run", "watch", "'watch' in c.toml is an argument in Python only; remove it"),
        ("compare", "epoch", "unknown option 'epoch' in c.toml; did you mean 'epochs'?"),
        ("run", "buffer-size", "unknown option 'buffer_size' in c.toml; it is called --memory here"),
        (
            "compare",
            "keep_model",
            "unknown option 'keep_model' in c.toml; it is no option here: moca run keeps the weights anyway, a "
            "comparison with --record weights",
        ),
    ],
)
def test_a_mistaken_option_in_a_file_says_what_it_is_called(moca, tmp_path, command, name, said):
    (tmp_path / "c.toml").write_text(f"{name} = 2\n")
    assert moca(command, "--config", "c.toml")[::2] == (1, f"moca: {said}\n")


def test_an_empty_out_is_not_the_current_folder(moca, tmp_path):
    code, _, err = moca("run", *FAST, "--out", "")
    assert code == 1
    assert "cannot be the path of a folder" in err
    assert list(tmp_path.iterdir()) == []
