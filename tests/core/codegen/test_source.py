"""Generated source: indentation, what its functions see, and tracebacks that show it."""

import traceback

import numpy as np
import pytest

from autograd_gpu.core.codegen.source import Source
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
