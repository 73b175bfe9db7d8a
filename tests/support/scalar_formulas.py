"""Formulas to test the language with, random ones, and what an expression is in exact arithmetic."""

import mpmath
from hypothesis import strategies as st

from autograd_gpu.backend.formulas import expression as language
from autograd_gpu.backend.formulas.expression import CONSTANT, INPUT, NUMBER, STATED, ordered
from autograd_gpu.backend.formulas.formula import Formula

EXACT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "neg": lambda a: -a, "abs": abs, "sign": mpmath.sign, "sqrt": mpmath.sqrt, "root": mpmath.sqrt, "exp": mpmath.exp,
    "expm1": mpmath.expm1, "log": mpmath.log, "log1p": mpmath.log1p, "sin": mpmath.sin, "cos": mpmath.cos,
    "tanh": mpmath.tanh, "sigmoid": lambda a: 1 / (1 + mpmath.exp(-a)),
    "softplus": lambda a: mpmath.log1p(mpmath.exp(a)),
    "normal_cdf": mpmath.ncdf, "minimum": min, "maximum": max, "pow": lambda a, b: a**b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "select": lambda c, a, b: a if c else b,
}  # fmt: skip


def exact(e, values):
    """The expression with mpmath's numbers; `values` are those of inputs and numbers by name."""
    known = {}
    for part in ordered([e]):
        if part.op == CONSTANT:
            known[part] = mpmath.mpf(part.value)
        elif part.op in (INPUT, NUMBER):
            known[part] = mpmath.mpf(values[part.value])
        elif part.op == STATED:
            known[part] = exact(part.value.inlined(*part.args), values)
        else:
            known[part] = EXACT[part.op](*[known[a] for a in part.args])
    return known[e]


def silu(x): return x * language.sigmoid(x)
def gelu(x): return x * language.normal_cdf(x)
def tanh(x): return language.tanh(x)
def elu(x, *, alpha=1.5): return language.select(x <= 0, language.expm1(x) * alpha, x)


def softplus(x, *, beta=2.0, threshold=20.0):
    return language.select(x * beta > threshold, x, language.softplus(x * beta) / beta)


@language.with_derivative(lambda n: 2 / ((n + 2) * (n + 2)))
def odds(n):
    return n / (n + 2)


def mish(x):
    e = language.exp(language.minimum(x, 20))
    return x * odds(e * (e + 2))


def lerp(a, b, weight):
    way = b - a
    return language.select(language.absolute(weight) < 0.5, a + weight * way, b - way * (1 - weight))


FORMULAS = {f.__name__: Formula(f) for f in (silu, gelu, tanh, elu, softplus, mish, lerp)}

# ---- random formulas, smooth where they are computed --------------------------------------------------

_UNARY = [
    lambda x: -x, language.tanh, language.sigmoid, language.softplus, language.sin, language.cos, language.normal_cdf,
    lambda x: language.exp(language.sin(x)), lambda x: language.log1p(x * x), lambda x: language.sqrt(x * x + 1),
    lambda x: language.expm1(language.tanh(x)), lambda x: language.sigmoid(-x), lambda x: language.tanh(x) ** 3,
]  # fmt: skip
_BINARY = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (b * b + 1),
    lambda a, b: language.select(language.element("x") < 0.25, a, b),
]  # fmt: skip
_LEAVES = st.sampled_from([language.element("x"), language.element("y"), language.number("k"), 0.5, 2.0, -1.0])


EXPRESSIONS = st.recursive(
    _LEAVES.map(language.as_expression),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(_UNARY), inner).map(lambda t: t[0](t[1])),
        st.tuples(st.sampled_from(_BINARY), inner, inner).map(lambda t: t[0](t[1], t[2])),
    ),
    max_leaves=8,
)
