"""Commands as a person types them, in this process."""

import pytest

from moca import cli


@pytest.fixture
def moca(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder; its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words):
        with pytest.raises(SystemExit) as exit:
            cli.main([str(word) for word in words])
        said = capsys.readouterr()
        return exit.value.code or 0, said.out, said.err

    return call
