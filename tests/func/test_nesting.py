"""Transforms around transforms: every pair and triple, and random programs with captured variables; beside PyTorch."""

import itertools
from dataclasses import dataclass

import pytest
from func_programs import array_of, assert_equal, beside, normal
from hypothesis import given, settings
from hypothesis import strategies as st

import autograd_gpu as ag

pytestmark = pytest.mark.cpu

# ---- pairs and triples: a transform makes a function of a vector from one ------------------------------


def weights(m):
    return m.tensor([1.0, -0.5, 2.0], dtype=m.float64)


def linearize(m, f, x):
    """PyTorch's runs in no transform: its jvp is the same."""
    return m.func.linearize(f, x)[1](x) if m is ag else m.func.jvp(f, (x,), (x,))[1]


TRANSFORMS = {
    "vmap": lambda m, f: lambda x: m.func.vmap(f)(m.stack([x, x * 2])).sum(0),
    "vmap_captured": lambda m, f: lambda x: m.func.vmap(lambda s: f(x * s), out_dims=1)(weights(m)).sum(1),
    "grad": lambda m, f: m.func.grad(lambda x: (f(x) * weights(m)).sum()),
    "vjp": lambda m, f: lambda x: m.func.vjp(f, x)[1](x.cos())[0],
    "jvp": lambda m, f: lambda x: m.func.jvp(f, (x,), (x.cos(),))[1],
    "jacrev": lambda m, f: lambda x: m.func.jacrev(f)(x).sum(0),
    "jacfwd": lambda m, f: lambda x: m.func.jacfwd(f)(x).sum(1),
    "linearize": lambda m, f: lambda x: linearize(m, f, x),
    "hessian": lambda m, f: lambda x: m.func.hessian(lambda x: (f(x) * weights(m)).sum())(x) @ x,
}
FUNCTIONS = {
    "elementwise": lambda x: (x * x).sin() * x,
    "shapes": lambda x: (x.reshape(3, 1) * x[[1, 2, 0]]).cumsum(1)[:, 1:].tanh().sum(1),
    "reductions": lambda x: x.softmax(0) * x.sum() + x.flip(0) / (1 + (x * x).sum().sqrt()),
}


def agree_at_a_point(names, f):
    def program(m):
        made = f
        for name in reversed(names):
            made = TRANSFORMS[name](m, made)
        x = normal(m, 3).requires_grad_()
        out = made(x)
        return out, m.autograd.grad(out.sum(), x)

    expected = beside(program)
    scale = 1 + abs(array_of(expected[1][0])).max()
    assert_equal(program(ag), expected, 1e-10 * scale)


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(TRANSFORMS, repeat=2)))
def test_pairs(outer, inner, f):
    agree_at_a_point((outer, inner), FUNCTIONS[f])


@pytest.mark.parametrize(("outer", "middle"), list(itertools.product(TRANSFORMS, repeat=2)))
def test_triples(outer, middle):
    for inner in ("vmap", "grad", "jvp", "jacrev", "jacfwd"):
        agree_at_a_point((outer, middle, inner), FUNCTIONS["elementwise"])


# ---- random programs: each transform binds a variable, its body may use all that are around ------------


@dataclass(frozen=True)
class Node:
    kind: str
    parts: tuple

    def __repr__(self):
        return f"{self.kind}({', '.join(map(repr, self.parts))})"


UNARY = {
    "sin": lambda m, x: x.sin(), "tanh": lambda m, x: x.tanh(), "flip": lambda m, x: x.flip(0),
    "mean": lambda m, x: x.mean().expand(2) * 1, "index": lambda m, x: x[[1, 1]],
    "stack": lambda m, x: m.stack([x, x]).sum(1), "half": lambda m, x: x * 0.5, "detach": lambda m, x: x.detach(),
    "constant": lambda m, x: m.ones(2, dtype=m.float64),
}  # fmt: skip
BINARY = {
    "add": lambda m, x, y: x + y, "mul": lambda m, x, y: x * y, "outer": lambda m, x, y: m.outer(x, y).sum(1),
    "where": lambda m, x, y: m.where(x > y, x, y * 2), "cat": lambda m, x, y: m.cat([x, y])[1:3],
}  # fmt: skip
BINDERS = {  # the function of the bound variable, and two arguments
    "vmap": lambda m, f, x, y: m.func.vmap(f)(m.stack([x, y])).sum(0),
    "vmap_out": lambda m, f, x, y: m.func.vmap(lambda z: f(z) + 0 * z, 1, 1)(m.stack([x, y], 1)).sin().sum(1),
    "grad": lambda m, f, x, y: m.func.grad(lambda z: (f(z) * y).sum())(x),
    "vjp": lambda m, f, x, y: m.func.vjp(f, x)[1](y)[0],
    "jvp": lambda m, f, x, y: m.func.jvp(f, (x,), (y,))[1],
    "jacrev": lambda m, f, x, y: m.func.jacrev(f)(x) @ y,
    "jacfwd": lambda m, f, x, y: m.func.jacfwd(f)(x) @ y,
}


def run(m, node, variables):
    """The value of a program, a vector of two elements."""
    if node.kind == "variable":
        return variables[node.parts[0] % len(variables)]
    if node.kind == "no_grad":
        with m.no_grad():
            return run(m, node.parts[0], variables)
    if node.kind in BINDERS:
        body, x, y = node.parts
        x, y = run(m, x, variables), run(m, y, variables)
        return BINDERS[node.kind](m, lambda z: run(m, body, [*variables, z]), x, y)
    results = [run(m, part, variables) for part in node.parts]
    return (UNARY | BINARY)[node.kind](m, *results)


VARIABLES = st.builds(lambda i: Node("variable", (i,)), st.integers(-4, 3))


def calls(kinds, *parts):
    return st.builds(lambda kind, *parts: Node(kind, parts), st.sampled_from(list(kinds)), *parts)


def ops(part):
    return st.one_of(calls([*UNARY, "no_grad"], part), calls(BINARY, part, part))


EXPRESSIONS = st.recursive(VARIABLES, ops, max_leaves=3)


def nested(depth):
    """Programs with `depth` transforms around each other."""
    body = nested(depth - 1) if depth else EXPRESSIONS
    if not depth:
        return body
    around = calls(BINDERS, body, EXPRESSIONS, VARIABLES)
    return st.one_of(around, calls([*UNARY, "no_grad"], around), calls(BINARY, around, EXPRESSIONS),
                     calls(BINARY, EXPRESSIONS, around), calls(BINDERS, EXPRESSIONS, around, VARIABLES))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 4).flatmap(nested))
def test_random_programs(node):
    def program(m):
        variables = [normal(m, 2), normal(m, 2, seed=1).requires_grad_()]
        out = run(m, node, variables)
        linked = m.autograd.grad(out.sum(), variables[1:], allow_unused=True)[0] if out.requires_grad else None
        return out.detach(), m.zeros(2, dtype=m.float64) if linked is None else linked

    expected = beside(program)
    scale = 1 + max(abs(array_of(x)).max() for x in expected)
    assert_equal(program(ag), expected, 1e-10 * scale, repr(node))
