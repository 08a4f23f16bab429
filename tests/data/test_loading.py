import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from moca.data import Store, load
from moca.errors import MocaError
from moca.streams import class_incremental
from tests.data import made


def test_digits_need_no_store():
    assert len(load("digits").classes) == 10


def test_a_folder_works_wherever_a_name_does(tmp_path):
    source = made.folder(tmp_path / "my flowers", made.small_set(classes=4), ["iris", "lily", "rose", "tulip"])
    dataset = load(source)
    assert dataset.name == "my flowers" and dataset.classes == ("iris", "lily", "rose", "tulip")
    stream = class_incremental(dataset, tasks=2)
    assert [task.classes for task in stream] == [(0, 1), (2, 3)] and len(stream[0].train) == 8
    assert dataset.protocol.crop_padding == 1 and dataset.protocol.flip and not dataset.protocol.recipe
    values = dataset.train.images.double() / 255
    torch.testing.assert_close(torch.tensor(dataset.protocol.mean).double(), values.mean((0, 2, 3)))


def test_a_folder_is_read_once_and_again_when_it_changes(tmp_path, monkeypatch):
    from moca.data import loading

    calls = []
    really = loading.add

    def counted(*arguments, **more):
        calls.append(arguments)
        return really(*arguments, **more)

    monkeypatch.setattr(loading, "add", counted)
    source = made.folder(tmp_path / "mine", made.small_set())
    load(str(source))
    load(source)
    assert len(calls) == 1
    (Store().names / f"{next(iter(Store()))}.json").write_text("{")
    assert len(load(source).train) == 12 and len(calls) == 2, "what is recorded about it was damaged"
    calls.pop()
    victim = source / "train" / "class0" / "new.png"
    victim.write_bytes(made.png(made.pictures(1, seed=9)[0]))
    assert len(load(source).train) == 13 and len(calls) == 2
    assert len(list(Store())) == 1
    assert load(source, size=16).shape == (3, 16, 16) and len(calls) == 3
    assert load(source).shape == (3, 8, 8) and load(source, size=16).shape == (3, 16, 16)
    assert len(calls) == 3 and len(list(Store())) == 2, "each size is stored, and none takes the place of another"


def test_two_folders_of_the_same_name_do_not_meet(tmp_path):
    one = made.folder(tmp_path / "a" / "mine", made.small_set())
    two = made.folder(tmp_path / "b" / "mine", made.small_set(seed=3))
    assert not torch.equal(load(one).train.images, load(two).train.images)
    assert len(list(Store())) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", r"unknown data set 'digit' \(there is no folder of that name either\); did you mean 'digits'\?"),
        ("cifar10", r"'cifar10' is not in the store yet; add it with: moca.data.add\('cifar10'\)"),
        ("miniimagenet", r"add it with: moca.data.add\('miniimagenet', 'PATH'\)$"),
        (np.zeros((4, 8, 8, 3)), "load takes a name or a path, not ndarray; moca.dataset takes images and labels"),
        ("no/such/folder", "no/such/folder does not exist"),
        ("../no-such-folder", "does not exist"),
    ],
)
def test_mistakes(name, message):
    with pytest.raises(MocaError, match=message):
        load(name)


def test_only_a_mistake_that_an_option_mends_names_the_command_with_that_option(tmp_path):
    folder = made.folder(tmp_path / "my--pics", made.small_set())
    bad = folder / "train" / "class0" / "a--b.png"
    bad.write_bytes(b"no image")
    with pytest.raises(
        MocaError, match=r"skip_bad=True \(an option of moca.data.add\('NAME', '.*'\); then use data=NAME\)$"
    ):
        load(folder)
    bad.unlink()
    (folder / "train" / "empty").mkdir()
    with pytest.raises(MocaError, match=r"'empty' has no image \(.*\); remove the folder or add images to it$"):
        load(folder)
    no_store = tmp_path / "file"
    no_store.touch()
    (folder / "train" / "empty").rmdir()
    with pytest.raises(MocaError, match=r"move the store with data_dir= or MOCA_DATA$"):
        load(folder, data_dir=no_store)


def test_listing_and_adding_never_load_torch(tmp_path):
    made.npz(tmp_path / "a.npz", made.small_set())
    code = (
        "import sys; from moca.cli.data import app; from moca.data import add, check, listing;"
        f"add('mine', {str(tmp_path / 'a.npz')!r}); check('mine'); listing();"
        "sys.exit('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_a_link_that_leads_round_is_no_trap(tmp_path):
    source = made.folder(tmp_path / "mine", made.small_set())
    (source / "train" / "class0" / "up").symlink_to(source)
    assert len(load(source).classes) == 3
