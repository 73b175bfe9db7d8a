"""core/declare/public.py: the names under which users find an op, and what is derived from them."""

import pytest

import autograd_gpu as ag
from autograd_gpu.core.declare import public as declared
from autograd_gpu.core.declare.public import NAMED, method, public
from autograd_gpu.errors import OpDeclarationError
from autograd_gpu.ops import binding

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _own_list(monkeypatch):
    monkeypatch.setattr(declared, "NAMED", [])


def named(decorator):
    @decorator
    def thing(x):
        return x

    return declared.NAMED[-1], thing


def test_its_own_name_by_default():
    result, thing = named(public(methods=True, inplace=True, ufunc=True))
    assert result == (thing, ("thing",), ("thing",), ("thing_",), ("thing",), False, False)


def test_true_stands_for_the_public_names_without_module_and_in_place():
    result, _ = named(public("thing", "alias", "thing_", "linalg.thing", methods=True, inplace=True))
    assert result.methods == ("thing", "alias")
    assert result.inplace == ("thing_", "alias_")


def test_a_method_only():
    assert named(method())[0][1:] == ((), ("thing",), (), (), False, False)
    assert named(method("other"))[0].methods == ("other",)


@pytest.mark.parametrize(("words", "text"), [
    ({"methods": True}, "thing: methods = True stands for its public names, of which it has none"),
    ({"methods": "thing", "inplace": "thing"}, "thing: the in-place method 'thing' has to end in '_'"),
])
def test_refused(words, text):
    with pytest.raises(OpDeclarationError, match=f"^{text}"):
        named(public("linalg.thing", **words))
    assert declared.NAMED == []


def test_the_modules_hold_what_the_declarations_name():
    modules = {"": ag.ops, "nn.functional": ag.nn.functional} | {
        name: getattr(ag, name) for name in ("foreach", "linalg", "special")
    }
    for entry in NAMED:
        for dotted in entry.public:
            module, _, name = dotted.rpartition(".")
            assert callable(getattr(modules[module], name))
            assert name in modules[module].__all__
        for name in entry.methods:
            assert getattr(ag.Tensor, name) is entry.function
        for name in entry.inplace:
            assert getattr(ag.Tensor, name).__name__ == name


def test_one_name_is_not_given_to_two_functions():
    table = {"exp": ag.exp}
    with pytest.raises(OpDeclarationError, match="'exp' names two functions"):
        binding._enter(table, "exp", ag.log)
    assert table == {"exp": ag.exp}
