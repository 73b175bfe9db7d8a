"""python -m autograd_gpu: the commands that are those of a checkout. (tests/test_info.py has `info`.)"""

import pytest

from autograd_gpu import __main__

pytestmark = pytest.mark.cpu


def test_commands_pass_their_words_on(capfd, monkeypatch, tmp_path):
    """Also --help, from any folder; and the exit code is the command's."""
    monkeypatch.chdir(tmp_path)
    assert __main__.main(["bench", "check", "--help"]) == 0
    assert "usage: python -m benchmarks check" in capfd.readouterr().out
    assert __main__.main(["bench", "--only", "nothing"]) == 2
    assert "no workload 'nothing'" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        __main__.main(["--help"])
    said = capfd.readouterr().out
    assert all(f"{name:<6}{command.help}" in said for name, command in __main__.COMMANDS.items())


@pytest.mark.parametrize("command", ["demo", "bench"])
def test_a_wheel_says_that_it_has_no_benchmarks(command, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(__main__, "ROOT", tmp_path)
    assert __main__.main([command]) == 2
    assert "which an installed wheel does not contain: there is no benchmarks/ in" in capsys.readouterr().err
