"""Generated source: indentation, what its functions see, tracebacks, and functions written at their first call."""

import inspect
import linecache
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.codegen.source import Source, deferred, materialize
from autograd_gpu.core.tensor import Tensor

pytestmark = pytest.mark.cpu


def written(*lines):
    w = Source()
    for line in lines:
        w(*line) if isinstance(line, tuple) else w(line)
    return w


def test_lines_are_indented_by_depth_and_by_themselves():
    w = Source()
    w("def f(x):")
    w.depth = 1
    w("if x:")
    w("return 1", 1)
    w.depth -= 1
    w("return 0", 1)
    assert w.lines == ["def f(x):", "    if x:", "        return 1", "    return 0"]
    assert [w.compile("f", {})(x) for x in (True, False)] == [1, 0]


def test_a_function_sees_the_common_scope_and_its_own():
    w = written("def f(x):", ("return numpy.add(x, offset), Tensor", 1))
    assert w.compile("f", {"offset": 2})(1) == (3, Tensor)
    assert w.compile("f", {"offset": 3})(1) == (4, Tensor)


def test_scopes_of_two_functions_are_apart():
    """A name that one function binds as a global is not the other's."""
    first = written("def f():", ("global seen; seen = 1", 1)).compile("f", {})
    second = written("def f():", ("return seen", 1)).compile("f", {})
    first()
    with pytest.raises(NameError):
        second()


def test_a_traceback_shows_the_generated_lines():
    functions = [written(f"def f(x):  # {i}", (f"return x / {i}", 1)).compile("f", {}) for i in (0, 0)]
    assert len({function.__code__.co_filename for function in functions}) == 2
    with pytest.raises(ZeroDivisionError) as raised:
        functions[1](1)
    text = "".join(traceback.format_exception(raised.value))
    assert "<generated f " in text
    assert "return x / 0" in text


def test_numpy_is_the_one_in_use():
    assert written("def f():", ("return numpy", 1)).compile("f", {})() is np


def made(writes):
    def write(w):
        writes.append(threading.get_ident())
        w("def scaled(x, factor=DEFAULT, *, shift=0):")
        w("    return x / 0 if x is None else x * factor + shift")
        return {"DEFAULT": 3}

    return deferred("scaled", write)


def test_it_is_written_once_and_stays_the_same_object():
    writes = []
    function = made(writes)
    assert not writes
    assert [function(2), function(2, 5), function(x=2, shift=1)] == [6, 10, 7]
    assert len(writes) == 1
    assert str(inspect.signature(function)) == "(x, factor=3, *, shift=0)"
    assert (function.__name__, function.__qualname__) == ("scaled", "scaled")


def test_materialize_writes_it_without_a_call():
    writes = []
    function = materialize(made(writes))
    assert writes
    assert materialize(function) is function
    assert len(writes) == 1
    assert materialize(len) is len


def test_a_traceback_shows_the_generated_line():
    function = made([])
    with pytest.raises(TypeError) as caught:
        function(None)
    assert "return x / 0 if x is None" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_threads_that_make_the_first_call_at_the_same_time():
    for _ in range(50):
        function, actual, barrier = made([]), [], threading.Barrier(4)

        def call(function=function, actual=actual, barrier=barrier):
            barrier.wait()
            actual.append(function(2, shift=1))

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert actual == [7] * 4


def test_a_failed_write_is_repeated():
    failures = [ZeroDivisionError]

    def write(w):
        if failures:
            raise failures.pop()
        w("def f(): return 1")
        return {}

    function = deferred("f", write)
    with pytest.raises(ZeroDivisionError):
        function()
    assert function() == 1


def test_the_import_generates_nothing():
    script = "import linecache, autograd_gpu; print([f for f in linecache.cache if f.startswith('<generated')])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_generated_function_has_its_source():
    x = ag.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    for function in (ag.mul, ag.mul.op.raw, ag.Tensor.__mul__, ag.gather):
        materialize(function)
        assert linecache.getline(function.__code__.co_filename, 1).startswith("def ")
