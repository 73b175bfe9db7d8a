"""What groups are made of has the bits of eager code: each op's formula, choices by conditions, layers taken apart."""

import inspect
import itertools

import numpy as np
import pytest
from compiled_groups import programs_of, wrapped
from formula_bits import same_bits, values
from hypothesis import given, settings
from hypothesis import strategies as st

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.autograd import grad
from autograd_gpu.backend.formulas.native import switch
from autograd_gpu.compilation.graph import RESULT, Call, Value
from autograd_gpu.compilation.passes import fuse, half_parts, parts
from autograd_gpu.compilation.passes.layers import BACKWARD, FORWARD
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.ops.nn.linear_activation import ACTIVATIONS

pytest.importorskip("llvmlite", reason="groups need the extra [native]")
pytestmark = pytest.mark.cpu
FORMULAS = sorted(name for name, op in REGISTRY.items() if op.formula is not None)

# ---- the formula of each op ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_has_the_bits_of_the_forward(name):
    """NaN, infinities, subnormals and -0.0 among the operands; few elements, and so many that other code runs."""
    for dtype in (np.float32, np.float64):
        for size in (300, 5000):
            arrays = operands(name, [values(size, dtype, seed) for seed, _ in enumerate(REGISTRY[name].inputs)])
            group, code, out = group_of(name, arrays)
            if code is None:  # a function of SciPy, or a cast to the same dtype
                assert dtype == np.float64 or name == "cast"
                continue
            with np.errstate(all="ignore"):
                same_bits(code.code([v.array for v in group.args], code.code.constants)[0], out)
            if dtype == np.float32:  # test_llvm_code.py has float64
                code.switch.compile(np.dtype(dtype))
                same_bits(code.switch([v.array for v in group.args], ())[0], out)


@pytest.mark.parametrize("dtype", [ag.float16, ag.bfloat16], ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_of_half_types_has_the_bits_of_the_forward(name, dtype):
    """All numbers of a half type as the first operand, in NumPy code and in native code."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    random = np.random.default_rng(0)
    arrays = [numbers, *[random.permutation(numbers) for _ in REGISTRY[name].inputs[1:]]]
    group, code, out = group_of(name, operands(name, arrays))
    arrays = [v.array for v in group.args]
    with np.errstate(invalid="ignore"):  # isnan of bfloat16
        same_bits(code(*arrays), out)
        code.switch.compile(np.dtype(np.float32))
        same_bits(code(*arrays), out)


@pytest.mark.parametrize(("source", "target"), [*itertools.permutations([ag.float16, ag.bfloat16, ag.float32], 2)])
def test_casts_have_the_bits_of_eager_code(source, target):
    """All half numbers; and float32 numbers between two of them, subnormals and what overflows among them."""
    upper, tails = np.arange(1 << 16, dtype=np.uint32) << 16, (0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001)
    wide = np.concatenate([upper | tail for tail in tails]).view(np.float32)
    x = wide if source == ag.float32 else np.arange(1 << 16, dtype=np.uint16).view(source)
    group, code, out = group_of("cast", [x], dtype=target)
    same_bits(code(x), out)
    code.switch.compile(np.dtype(np.float32))
    same_bits(code(x), out)
    assert group.outs[0].dtype == target


def test_a_formula_that_differs_from_eager_code_is_no_part_of_groups(monkeypatch):
    half_parts._rounding_program.cache_clear()
    numbers = values(300, np.float16)
    assert group_of("tanh", [numbers])[1] is not None
    half_parts._rounding_program.cache_clear()
    exact = REGISTRY["tanh"].forward
    for wrong in (lambda xp, x: np.nextafter(exact(xp, x), np.float16(9)), lambda xp, x: exact(xp, x).astype("f4")):
        monkeypatch.setattr(REGISTRY["tanh"], "forward", wrong)
        assert group_of("tanh", [numbers])[1] is None
        half_parts._rounding_program.cache_clear()


def operands(name, arrays):
    return [arrays[0], 2] if name == "pow" else arrays


def group_of(name, arrays, **attributes):
    """An op as a group, the group's code, or None, and what the forward makes."""
    op = REGISTRY[name]
    missing = {"activation": "tanh", "dtype": np.dtype(np.float32)}
    attributes = {key: missing.get(key, 0.3) if value is inspect.Parameter.empty else value
                  for key, value in op.attributes.items()} | attributes  # fmt: skip
    with np.errstate(all="ignore"):
        out = op.forward(np, *arrays, **attributes)
    args = [Value("x", RESULT, a) if isinstance(a, np.ndarray) else a for a in arrays]
    node = Call([Value("out", RESULT, out)], op=op, args=args, attributes=attributes)
    known = parts.Parts([node], set())
    if known.of(node) is None:
        return None, None, out
    group = fuse._group(fuse._Unit(0, [node], [known.by_node[node]], known.by_node[node].key), node.outs)
    return group, fuse._code(group, known), out


# ---- choices -------------------------------------------------------------------------------------------

COMPARE = st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])
TREES = st.recursive(
    st.tuples(COMPARE, st.integers(0, 3), st.integers(0, 3)),
    lambda inner: st.one_of(st.tuples(st.sampled_from(["logical_and", "logical_or"]), inner, inner),
                            st.tuples(st.just("logical_not"), inner)),
    max_leaves=4,
)  # fmt: skip


def condition(tree, operands):
    name, *rest = tree
    if isinstance(rest[0], int):
        return getattr(ag, name)(operands[rest[0]], operands[rest[1]] if rest[1] != rest[0] else 0.5)
    return getattr(ag, name)(*[condition(inner, operands) for inner in rest])


@settings(max_examples=30, deadline=None)
@given(TREES, st.sampled_from([(300,), (40, 33)]), st.booleans(), st.booleans(),
       st.sampled_from([ag.float32, ag.float16, ag.bfloat16]))  # fmt: skip
def test_choices_have_the_bits_of_eager_code(tree, shape, filled, shown, dtype):
    """Any condition of comparisons, of which special values are the operands; it is computed if something reads it."""
    operands = [wrapped(values(int(np.prod(shape)), dtype, seed).reshape(shape)) for seed in range(4)]

    def f(a, b, c, d):
        chosen = condition(tree, (a, b, c, d))
        out = ag.masked_fill(a, chosen, -0.0) * b if filled else ag.where(chosen, a * b, c)
        return (out, out + 1, chosen) if shown else (out, out + 1)

    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(switch, "LOADS", 1)
        patch.setattr(switch, "COMPILES", 1)
        expected, compiled = f(*operands), ag.compile(f, fullgraph=True)
        for _ in range(4):
            for got, want in zip(compiled(*operands), expected, strict=True):
                same_bits(got._array, want._array)
    left = {node.name for program in programs_of(compiled) for node in program.nodes}
    assert left.isdisjoint({"where", "masked_fill"})
    assert shown or left == {"group"}


# ---- layers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_layers_are_taken_apart(activation, at_once):
    """Bias, activation and its gradient join groups in a step that writes to the bias; the sums for it stay behind."""
    ag.manual_seed(0)
    weight, bias = ag.randn(8, 5, requires_grad=True), ag.randn(8, requires_grad=True)

    def step(x):
        out = nn.functional.linear_activation(x, weight, bias, activation)
        grads = grad((out * out.sin()).sum(), (weight, bias), create_graph=True)
        grads = [*grads, *grad(grads[0].square().sum(), (weight, bias))]
        with ag.no_grad():
            bias.sub_(0.01 * grads[1])
        return grads

    compiled, x = ag.compile(step, fullgraph=True), ag.randn(40, 5)
    for _ in range(5):
        kept = bias.detach().clone()
        got = compiled(x)
        after = bias.detach().clone()
        with ag.no_grad():
            bias.copy_(kept)
        for a, b in zip(got, step(x), strict=True):
            same_bits(a._array, b._array)
        same_bits(after._array, bias._array)
    ops = {node.name for program in programs_of(compiled) for node in program.nodes}
    assert ops.isdisjoint((*FORWARD, *BACKWARD))
