"""What groups are made of has the bits of eager code: each op's formula, choices by conditions, layers taken apart."""

import inspect

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
from autograd_gpu.compilation.passes import fuse, parts
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
    op = REGISTRY[name]
    missing = {"activation": "tanh"}
    attributes = {key: missing.get(key, 0.3) if value is inspect.Parameter.empty else value
                  for key, value in op.attributes.items()}  # fmt: skip
    for dtype in (np.float32, np.float64):
        for size in (300, 5000):
            arrays = [values(size, dtype, seed) for seed, _ in enumerate(op.inputs)]
            if name == "pow":
                arrays[1] = 2
            with np.errstate(all="ignore"):
                out = op.forward(np, *arrays, **attributes)
            args = [Value("x", RESULT, a) if isinstance(a, np.ndarray) else a for a in arrays]
            node = Call([Value("out", RESULT, out)], op=op, args=args, attributes=attributes)
            known = parts.Parts([node], set())
            if known.of(node) is None:  # a function of SciPy
                assert dtype == np.float64
                continue
            group = fuse._group(fuse._Unit(0, [node], [known.by_node[node]], known.by_node[node].key), node.outs)
            code = fuse._code(group, known)
            with np.errstate(all="ignore"):
                same_bits(code.code([v.array for v in group.args], code.code.constants)[0], out)
            if dtype == np.float32:  # test_llvm_code.py has float64
                code.switch.compile(np.dtype(dtype))
                same_bits(code.switch([v.array for v in group.args], ())[0], out)


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
@given(TREES, st.sampled_from([(300,), (40, 33)]), st.booleans(), st.booleans())
def test_choices_have_the_bits_of_eager_code(tree, shape, filled, shown):
    """Any condition of comparisons, of which special values are the operands; it is computed if something reads it."""
    operands = [wrapped(values(int(np.prod(shape)), np.float32, seed).reshape(shape)) for seed in range(4)]

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
