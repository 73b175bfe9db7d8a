"""What a block may not say: refused at import, naming the op and the argument."""

import pytest

from autograd_gpu.core.declare.jvp_rules import ELEMENTWISE, LINEAR, MULTILINEAR
from autograd_gpu.core.declare.op import REGISTRY, ZERO
from autograd_gpu.core.declare.public import NAMED
from autograd_gpu.core.dispatch import defop
from autograd_gpu.errors import OpDeclarationError

pytestmark = pytest.mark.cpu


def block(name="bad", **body):
    def forward(xp, x, y): return x + y
    def grad(F, g): return g
    return type(name, (), {"forward": forward, "grad_x": grad, "grad_y": grad, **body})


def without(*names, **body):
    made = block(**body)
    for name in names:
        delattr(made, name)
    return made


def asks_for_nothing_known(F, g, resutl): return g


@pytest.mark.parametrize(("bad", "match"), [
    (without("forward"), "op bad has no forward"),
    (without("grad_y"), r"op bad: input 'y' has no rule; write grad_y, grad_y = ZERO, nondiff = .*, or integral"),
    (block(grad_x=asks_for_nothing_known), r"bad.asks_for_nothing_known asks for 'resutl'; it may ask for x, y, out"),
    (type("bad", (), {"forward": lambda xp, *x: x[0], "grad_x": lambda F, g: g}), "list input; write a joint rule"),
    (block(grad_z=ZERO), "op bad: 'z' is not an input; inputs are x, y"),
    (block(nondiff=("z",)), "op bad: 'z' is not an input"),
    (block(integral=("z",)), "op bad: 'z' is not an input"),
    (block(tpyes="same"), r"op bad: unknown word\(s\) tpyes"),
    (block(add_x=lambda F, into, g, y: None), "op bad: add_x needs a rule grad_x that asks for the same"),
    (block(add_z=lambda F, into, g: None), "op bad: add_z needs a rule grad_z"),
    (block(fused=lambda F, g, need, y: None), "op bad: fused needs rules that ask for what it asks for"),
    (block(cuda=lambda xp, x: x), "op bad: cuda needs the parameters of forward: too many positional arguments"),
    (block(types="wide"), "op bad: types is one of promote, float, same, any, each; got 'wide'"),
    (block(types="each"), "op bad: types = EACH is for ops that map a list to a list"),
    (block(reads=lambda name, need: need), "op bad: `reads` is for the joint rule of a list input"),
    (block("mul"), "op mul is declared twice"),
    (without("grad_x", "grad_y"), "op bad has no derivative rule, and its results would be constants without a word; "
     "write its rules, or nondiff = True"),
    (without("grad_x", "grad_y", nondiff=("x",)), "op bad has no derivative rule"),
    (without("grad_x", "grad_y", nondiff=True, jvp=LINEAR), "op bad has no derivative rules, so tangents end there; "
     "leave jvp out"),
    (block(jvp=ELEMENTWISE, outputs=("a", "b")), "op bad: jvp = ELEMENTWISE is for ops with one output; write a func"),
    (block(jvp=MULTILINEAR, outputs=("*",)), "op bad: jvp = MULTILINEAR is for ops with one output"),
    (block(jvp=asks_for_nothing_known), r"bad.asks_for_nothing_known asks for 'resutl'; it may ask for x, y, out"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_refused(bad, match):
    with pytest.raises(OpDeclarationError, match=match):
        defop(bad)
    assert "bad" not in REGISTRY


@pytest.mark.parametrize(("specs", "match"), [
    ({"methods": True}, "bad: methods = True stands for its public names, of which it has none"),
    ({"public": "linalg.bad", "methods": True}, "bad: methods = True stands for its public names, of which it has"),
    ({"inplace": "bad"}, "bad: the in-place method 'bad' has to end in '_'"),
])
def test_names_that_users_would_not_find(specs, match):
    named = len(NAMED)
    with pytest.raises(OpDeclarationError, match=match):
        defop(block(**specs))
    assert "bad" not in REGISTRY
    assert len(NAMED) == named


def test_names_that_the_generated_code_uses():
    def forward(xp, g): return g
    def rule(F, grad, g): return g
    with pytest.raises(OpDeclarationError, match="g"):
        defop(type("bad", (), {"forward": forward, "grad_g": rule}))
    assert "bad" not in REGISTRY
