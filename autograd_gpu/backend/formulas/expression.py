"""Expressions: the graph of primitives that a formula, a Python function of numbers, is traced into.

Expressions are unique: equal ones are one object, so `is` compares, and a shared subexpression is computed once.
Arithmetic stays as the formula wrote it; only operations on constants alone are carried out. The order that `compare`
defines depends on nothing but the expressions, so derivatives and code are the same in every process.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

INPUT, NUMBER, CONSTANT, STATED = "input", "number", "constant", "stated"  # op of what is no primitive
INFIX = {
    "lt": ("<", 1), "le": ("<=", 1), "gt": (">", 1), "ge": (">=", 1), "eq": ("==", 1), "or": ("|", 2), "and": ("&", 3),
    "add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "div": ("/", 5),
}  # fmt: skip
CONDITIONS = frozenset(("lt", "le", "gt", "ge", "eq", "or", "and"))


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(x * -math.sqrt(0.5))


def _sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x))


# What a primitive computes on the host, from Python floats and NumPy's doubles.
ON_HOST: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.absolute,
    "sign": np.sign, "sqrt": np.sqrt, "root": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sigmoid": _sigmoid,
    "softplus": lambda x: np.logaddexp(x, 0.0), "normal_cdf": _normal_cdf, "minimum": np.minimum,
    "maximum": np.maximum, "pow": np.power, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "or": np.logical_or, "and": np.logical_and,
    "select": lambda condition, a, b: a if condition else b,
}  # fmt: skip


class Expression:
    """A primitive applied to expressions, or an input, a number or a constant.

    An input is an element of an array; a number is the same for all elements, and known when the code runs. `value` is
    the name of these, the value of a constant, or the StatedFunction of a call.
    """

    __slots__ = ("args", "height", "op", "uniform", "value")

    def __init__(self, op: str, args: tuple[Expression, ...], value: Any) -> None:
        self.op, self.args, self.value = op, args, value
        self.height: int = 1 + max([a.height for a in args], default=-1)
        self.uniform: bool = op in (NUMBER, CONSTANT) or (op != INPUT and all(a.uniform for a in args))

    def __add__(self, other: Any) -> Expression: return make("add", self, other)
    def __radd__(self, other: Any) -> Expression: return make("add", other, self)
    def __sub__(self, other: Any) -> Expression: return make("sub", self, other)
    def __rsub__(self, other: Any) -> Expression: return make("sub", other, self)
    def __mul__(self, other: Any) -> Expression: return make("mul", self, other)
    def __rmul__(self, other: Any) -> Expression: return make("mul", other, self)
    def __truediv__(self, other: Any) -> Expression: return make("div", self, other)
    def __rtruediv__(self, other: Any) -> Expression: return make("div", other, self)
    def __pow__(self, other: Any) -> Expression: return make("pow", self, other)
    def __neg__(self) -> Expression: return make("neg", self)
    def __lt__(self, other: Any) -> Expression: return make("lt", self, other)
    def __le__(self, other: Any) -> Expression: return make("le", self, other)
    def __gt__(self, other: Any) -> Expression: return make("gt", self, other)
    def __ge__(self, other: Any) -> Expression: return make("ge", self, other)
    def __and__(self, other: Any) -> Expression: return make("and", self, other)
    def __or__(self, other: Any) -> Expression: return make("or", self, other)

    def __bool__(self) -> bool:
        raise TypeError(f"a formula cannot ask whether {self} is true; instead of `if`, use select(condition, a, b)")

    def __repr__(self) -> str:
        return text(self)

    @property
    def is_condition(self) -> bool:
        return self.op in CONDITIONS


_MADE: dict[tuple[Any, ...], Expression] = {}


def _unique(op: str, args: tuple[Expression, ...] = (), value: Any = None) -> Expression:
    key = (op, args, repr(value) if op == CONSTANT else value)  # by repr, 0.0 and -0.0 differ
    made = _MADE.get(key)
    return made if made is not None else _MADE.setdefault(key, Expression(op, args, value))


def constant(value: float) -> Expression: return _unique(CONSTANT, value=float(value))
def element(name: str) -> Expression: return _unique(INPUT, value=name)
def number(name: str) -> Expression: return _unique(NUMBER, value=name)


def as_expression(value: Any) -> Expression:
    """A Python number as a constant; TypeError for anything that is neither number nor expression."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return constant(value)
    raise TypeError(f"a formula works on numbers and expressions, not on {value!r} of type {type(value).__name__}; "
                    "equal(a, b) compares in place of `==`")


def make(op: str, *args: Any) -> Expression:
    """The primitive `op` of the arguments; a constant if all of them are constants."""
    operands = tuple([as_expression(a) for a in args])
    conditions = [op in ("and", "or") or (op == "select" and i == 0) for i in range(len(operands))]
    for operand, condition in zip(operands, conditions, strict=True):
        if operand.is_condition is not condition:
            what = "needs a condition, such as a comparison, not" if condition else "takes no condition such as"
            raise TypeError(f"{op} {what} {operand}; select(condition, 1, 0) makes a number of a condition")
    if op == "pow" and not operands[1].uniform:
        raise TypeError(f"the exponent of pow must be a number, not {operands[1]}; use exp(b * log(a))")
    if op not in CONDITIONS and all(a.op == CONSTANT for a in operands):
        return constant(_computed(op, [a.value for a in operands]))
    if op in ("mul", "div") and ONE in operands and (op == "mul" or operands[1] is ONE):  # a number that is 1
        return operands[0] if operands[1] is ONE else operands[1]
    return _unique(op, operands)


def _computed(op: str, values: Sequence[Any]) -> Any:
    with np.errstate(all="ignore"):
        result = ON_HOST[op](*values)
    return bool(result) if op in CONDITIONS else float(result)


def on_host(expression: Expression, numbers: dict[str, float]) -> Any:
    """The value of an expression of numbers and constants, in double precision."""
    if expression.op == CONSTANT:
        return expression.value
    if expression.op == NUMBER:
        return float(numbers[expression.value])
    if expression.op == STATED:
        return on_host(expression.value.inlined(*expression.args), numbers)
    return _computed(expression.op, [on_host(a, numbers) for a in expression.args])


ZERO, ONE = constant(0), constant(1)

# ---- the functions of the language ---------------------------------------------------------------------


def sqrt(x: Any) -> Expression: return make("sqrt", x)
def exp(x: Any) -> Expression: return make("exp", x)
def expm1(x: Any) -> Expression: return make("expm1", x)
def log(x: Any) -> Expression: return make("log", x)
def log1p(x: Any) -> Expression: return make("log1p", x)
def sin(x: Any) -> Expression: return make("sin", x)
def cos(x: Any) -> Expression: return make("cos", x)
def tanh(x: Any) -> Expression: return make("tanh", x)
def sigmoid(x: Any) -> Expression: return make("sigmoid", x)
def softplus(x: Any) -> Expression: return make("softplus", x)
def normal_cdf(x: Any) -> Expression: return make("normal_cdf", x)
def absolute(x: Any) -> Expression: return make("abs", x)
def sign(x: Any) -> Expression: return make("sign", x)
def minimum(a: Any, b: Any) -> Expression: return make("minimum", a, b)
def maximum(a: Any, b: Any) -> Expression: return make("maximum", a, b)
def equal(a: Any, b: Any) -> Expression: return make("eq", a, b)


def root(x: Any) -> Expression:
    """sqrt(x), with the derivative 0 at 0."""
    return make("root", x)


def select(condition: Any, a: Any, b: Any) -> Expression:
    """a where the condition holds, else b. Comparisons with NaN do not hold. Both sides are computed."""
    return make("select", condition, a, b)


class StatedFunction:
    """A part of a formula whose derivative is stated, because the one by the rules would cancel."""

    def __init__(self, function: Callable[..., Any], partials: Sequence[Callable[..., Any]]) -> None:
        self.function, self.partials, self.__name__ = function, partials, function.__name__
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any) -> Expression:
        operands = tuple([as_expression(a) for a in args])
        if len(args) < len(self.partials) or not all(a.uniform for a in operands[len(self.partials) :]):
            raise TypeError(f"{self.__name__} takes {len(self.partials)} arguments, one for each stated derivative, "
                            "and numbers after them")
        return _unique(STATED, operands, self)

    def inlined(self, *args: Expression) -> Expression:
        return as_expression(self.function(*args))


def with_derivative(*partials: Callable[..., Any]) -> Callable[[Callable[..., Any]], StatedFunction]:
    """States the derivatives of a function by its arguments, each as a function of all arguments.

    @with_derivative(lambda n: 2 / ((n + 2) * (n + 2)))
    def odds(n): return n / (n + 2)

    There is none for the last arguments if they are numbers.
    """
    return lambda function: StatedFunction(function, partials)


# ---- walks ---------------------------------------------------------------------------------------------


def compare(a: Expression, b: Expression) -> int:
    """-1, 0 or 1: low expressions come first, then by op and value, then by arguments."""
    while a is not b:
        ranks = [(e.height, e.op, len(e.args), _rank(e)) for e in (a, b)]
        if ranks[0] != ranks[1]:
            return -1 if ranks[0] < ranks[1] else 1
        differing = [(x, y) for x, y in zip(a.args, b.args, strict=True) if x is not y]
        if not differing:  # calls of two stated functions of one name
            break
        a, b = differing[0]
    return 0


def _rank(e: Expression) -> str:
    return e.value.__name__ if e.op == STATED else repr(e.value)


def _arguments(e: Expression) -> tuple[Expression, ...]:
    return e.args


def ordered(
    outputs: Iterable[Expression], arguments: Callable[[Expression], tuple[Expression, ...]] = _arguments
) -> list[Expression]:
    """All expressions that the outputs consist of, each after its arguments, which `arguments` may hide."""
    result: dict[Expression, None] = {}
    waiting = [(o, False) for o in reversed([*outputs])]
    while waiting:
        e, complete = waiting.pop()
        if complete:
            result[e] = None
        elif e not in result:
            waiting.append((e, True))
            waiting += [(a, False) for a in reversed(arguments(e)) if a not in result]
    return [*result]


def rebuilt(e: Expression, args: Sequence[Expression]) -> Expression:
    """e with other arguments."""
    if all(a is b for a, b in zip(args, e.args, strict=True)):
        return e
    return e.value(*args) if e.op == STATED else make(e.op, *args)


def inputs_of(outputs: Iterable[Expression]) -> list[str]:
    """The names of the inputs that the outputs depend on."""
    return [e.value for e in ordered(outputs) if e.op == INPUT]


# ---- text ----------------------------------------------------------------------------------------------

_UNARY, _ATOM = 6, 7


def text(e: Expression, names: dict[Expression, str] | None = None) -> str:
    """The expression as Python would write it; those in `names` are written as these names."""
    return _text(e, names or {})[0]


def _text(e: Expression, names: dict[Expression, str]) -> tuple[str, int]:
    """The text and how tightly its outermost operator binds."""
    if e in names:
        return names[e], _ATOM
    if e.op == CONSTANT:
        written = repr(e.value).removesuffix(".0")
        return written, _UNARY if written.startswith("-") else _ATOM
    if e.op in (INPUT, NUMBER):
        return e.value, _ATOM
    if e.op == "neg":
        return "-" + _inside(e.args[0], names, _UNARY), _UNARY
    if e.op in INFIX:
        symbol, binds = INFIX[e.op]
        left, right = _inside(e.args[0], names, binds), _inside(e.args[1], names, binds + 1)
        return f"{left} {symbol} {right}", binds
    name = e.value.__name__ if e.op == STATED else e.op
    return f"{name}({', '.join([text(a, names) for a in e.args])})", _ATOM


def _inside(e: Expression, names: dict[Expression, str], binds: int) -> str:
    written, own = _text(e, names)
    return written if own >= binds else f"({written})"


def listing(outputs: dict[str, Expression]) -> str:
    """A line per output, after lines for the subexpressions that are used more than once."""
    everything = ordered(outputs.values())
    uses: dict[Expression, int] = {}
    for e in everything:
        for a in e.args:
            uses[a] = uses.get(a, 0) + 1
    names: dict[Expression, str] = {}
    lines = []
    for e in everything:
        if e.args and uses.get(e, 0) > 1:
            name = f"v{len(names)}"
            lines.append(f"{name} = {text(e, names)}")
            names[e] = name
    return "\n".join([*lines, *[f"{name} = {text(e, names)}" for name, e in outputs.items()]])
