"""python -m autograd_gpu trace SCRIPT."""

from __future__ import annotations

import gzip
import json
import sys

import pytest
from profiled import check_trace

from autograd_gpu.__main__ import main

pytestmark = pytest.mark.cpu

SCRIPT = """
import sys
import autograd_gpu as ag
x = ag.ones(3, requires_grad=True)
(x * 2).sum().backward()
print(__name__, sys.argv[1:], x.grad.tolist())
{end}
"""


def run(tmp_path, end, *options):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(end=end))
    return main(["trace", "-o", str(tmp_path / "trace.json.gz"), *options, str(script), "--own", "a"])


def test_a_script(tmp_path, capsys):
    before = sys.argv[:], sys.path[:]
    stacks = tmp_path / "stacks"
    assert run(tmp_path, "sys.exit(3)", "--memory", "--shapes", "--stacks", str(stacks), "--rows", "2") == 3
    printed = capsys.readouterr().out
    assert printed.startswith("__main__ ['--own', 'a'] [2.0, 2.0, 2.0]\n")
    assert "Self CPU time total: " in printed
    assert "Input Shapes" in printed
    trace = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    check_trace(trace)
    assert {"mul", "MulBackward0"} <= {row["name"] for row in trace["traceEvents"]}
    assert "script.py" in stacks.read_text()
    assert (sys.argv, sys.path) == before


def test_a_script_that_fails_is_traced(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run(tmp_path, "1 / 0")
    assert (tmp_path / "trace.json.gz").stat().st_size > 0


def test_what_sys_exit_says(tmp_path, capsys):
    assert run(tmp_path, "sys.exit('over')") == 1
    assert capsys.readouterr().err == "over\n"
    assert main(["trace", str(tmp_path / "none.py")]) == 2
    assert "there is no script" in capsys.readouterr().err
