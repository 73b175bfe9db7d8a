"""`__torch_function__` of operands beside PyTorch's: what the class gets, in which order, and what it returns."""

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


class Scaled:
    """A multiple of the identity, for both libraries; it tells what it was asked."""

    def __init__(self, factor):
        self.factor = factor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        given = [type(arg).__name__ for arg in (*args, *(kwargs or {}).values())]
        name = func.__name__.removeprefix("linalg_").replace("divide", "div")
        return cls.__name__, name, [kind.__name__ for kind in types], given


class Halved(Scaled):
    pass


class Silent:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


CALLS = {
    "clone": lambda lib, x, s: lib.clone(s),
    "second": lambda lib, x, s: lib.matmul(x, s),
    "method": lambda lib, x, s: x.matmul(s),
    "number": lambda lib, x, s: lib.mul(s, 2.0),
    "by place": lambda lib, x, s: lib.sum(s, 1),
    "by name": lambda lib, x, s: lib.diagonal(s, dim1=-2, dim2=-1),
    "keyword only": lambda lib, x, s: lib.add(s, x, alpha=2),
    "composed": lambda lib, x, s: lib.div(s, x),
    "linalg": lambda lib, x, s: lib.linalg.solve(s, x),
    "linalg, keyword": lambda lib, x, s: lib.linalg.solve_triangular(s, x, upper=True),
    "subclass first": lambda lib, x, s: lib.add(s, Halved(1)),
    "the other is silent": lambda lib, x, s: lib.add(Silent(), s),
    "a list": lambda lib, x, s: lib.cat([x, s]),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_pytorch(name):
    torch = pytest.importorskip("torch")
    theirs, ours = (CALLS[name](lib, lib.ones(2, 2), Scaled(2.0)) for lib in (torch, ag))
    assert ours == theirs


def test_the_function_is_the_public_one():
    class Keeps:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func

    assert ag.clone(Keeps()) is ag.clone
    assert ag.div(Keeps(), ag.ones(2)) is ag.div
    assert ag.linalg.solve(Keeps(), ag.ones(2)) is ag.linalg.solve
    assert ag.ones(2).mul(Keeps()) is ag.mul


def test_what_has_a_default_goes_by_name_if_it_differs():
    class Keeps:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return len(args), kwargs

    s = Keeps()
    assert ag.transpose(s, 0, 1) == (3, {})
    assert ag.sum(s, 1, False) == ag.sum(s, dim=1) == (1, {"dim": 1})
    assert ag.diagonal(s, 0, 0, -1) == (1, {"dim2": -1})


def test_nobody_has_a_result():
    with pytest.raises(TypeError, match=r"add.*__torch_function__ of Silent returned NotImplemented; pass tensors"):
        ag.add(Silent(), ag.ones(2))
