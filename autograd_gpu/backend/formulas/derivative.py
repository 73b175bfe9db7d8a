"""Derivatives of expressions, simplified.

`derivative` applies a rule per primitive. Only what the rules put together is simplified (`times`, `plus`, `over`,
`negated`): terms that are zero vanish, equal terms are added, and a factor that terms share is taken out. `pruned`
drops a choice inside the same choice. What a formula wrote stays as it is where it appears as a whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from .expression import (
    CONSTANT,
    INPUT,
    ONE,
    STATED,
    ZERO,
    Expression,
    as_expression,
    compare,
    constant,
    cos,
    element,
    equal,
    exp,
    make,
    ordered,
    rebuilt,
    select,
    sigmoid,
    sign,
    sin,
)

Factors = tuple[Expression, ...]  # in the order of `compare`
Term = tuple[float, Factors]  # a constant times the factors
in_order = functools.cmp_to_key(compare)

# ---- the rules -----------------------------------------------------------------------------------------


def _normal_density(x: Expression) -> Expression:
    return exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


def _power_rule(y: Expression, a: Expression, n: Expression) -> tuple[Expression, Expression]:
    if n.op == CONSTANT and n.value in (1, 2):
        return (ONE if n.value == 1 else times(constant(2), a)), ZERO
    return times(n, make("pow", a, n - 1)), ZERO


# The partial derivatives by the arguments; y is the expression itself. Each keeps its relative accuracy: that of
# sigmoid is not y * (1 - y), and that of expm1 not y + 1, which cancel in a tail.
PARTIALS: dict[str, Callable[..., tuple[Expression, ...]]] = {
    "neg": lambda y, a: (-ONE,),
    "abs": lambda y, a: (sign(a),),
    "sign": lambda y, a: (ZERO,),
    "sqrt": lambda y, a: (over(constant(0.5), y),),
    "root": lambda y, a: (select(equal(a, 0), 0, over(constant(0.5), y)),),
    "exp": lambda y, a: (y,),
    "expm1": lambda y, a: (exp(a),),
    "log": lambda y, a: (over(ONE, a),),
    "log1p": lambda y, a: (over(ONE, a + 1),),
    "sin": lambda y, a: (cos(a),),
    "cos": lambda y, a: (negated(sin(a)),),
    "tanh": lambda y, a: (1 - y * y,),
    "sigmoid": lambda y, a: (times(y, sigmoid(negated(a))),),
    "softplus": lambda y, a: (sigmoid(a),),
    "normal_cdf": lambda y, a: (_normal_density(a),),
    "pow": _power_rule,
    "minimum": lambda y, a, b: (select(a > b, 0, 1), select(a > b, 1, 0)),
    "maximum": lambda y, a, b: (select(a < b, 0, 1), select(a < b, 1, 0)),
}


def derivative(e: Expression, name: str) -> Expression:
    """The derivative of e by the input of this name, simplified; ZERO if it is zero for all values."""
    variable, known = element(name), dict[Expression, Expression]()
    for part in ordered([e]):
        known[part] = ONE if part is variable else _derived(part, known) if part.args else ZERO
    return pruned(known[e])


def derivatives(e: Expression, names: Sequence[str], alpha: Sequence[int]) -> Expression:
    """e, derived alpha[i] times by the input names[i]."""
    for name, times_ in zip(names, alpha, strict=True):
        for _ in range(times_):
            e = derivative(e, name)
    return e


def _derived(e: Expression, d: dict[Expression, Expression]) -> Expression:
    """The derivative of e from those of its arguments."""
    a = e.args
    if e.is_condition or all(d[x] is ZERO for x in a):
        return ZERO
    if e.op == "add":
        return plus(d[a[0]], d[a[1]])
    if e.op == "sub":
        return plus(d[a[0]], negated(d[a[1]]))
    if e.op == "mul":
        return plus(times(d[a[0]], a[1]), times(a[0], d[a[1]]))
    if e.op == "div":
        return plus(over(d[a[0]], a[1]), negated(times(e, over(d[a[1]], a[1]))))
    if e.op == "select":
        return _chosen(a[0], d[a[1]], d[a[2]])
    stated = e.op == STATED
    partials = [as_expression(partial(*a)) for partial in e.value.partials] if stated else PARTIALS[e.op](e, *a)
    return functools.reduce(plus, [times(p, d[x]) for p, x in zip(partials, a, strict=not stated)])


# ---- products ------------------------------------------------------------------------------------------


def _term(e: Expression) -> Term:
    """e as a constant times factors."""
    if e.op == CONSTANT:
        return e.value, ()
    if e.op == "neg":
        c, factors = _term(e.args[0])
        return -c, factors
    if e.op == "mul":
        (c, left), (d, right) = map(_term, e.args)
        return c * d, tuple(sorted(left + right, key=in_order))
    return 1.0, (e,)


def _product(c: float, factors: Sequence[Expression]) -> Expression:
    """c times the factors; numbers are one factor, which the host computes, and cancel with their reciprocals."""
    if c == 0:
        return ZERO
    left = sorted(factors, key=in_order)
    for inverse in [f for f in left if f.uniform and f.op == "div" and f.args[0] is ONE]:
        if inverse.args[1] in left:
            left.remove(inverse)
            left.remove(inverse.args[1])
    numbers, elements = [f for f in left if f.uniform], [f for f in left if not f.uniform]
    scale = numbers if abs(c) == 1 else [*numbers, constant(c)]
    result = _multiplied([*elements, _multiplied(scale)] if scale else elements)
    return -result if c == -1 else result


def _multiplied(factors: Sequence[Expression]) -> Expression:
    return functools.reduce(lambda a, b: a * b, factors) if factors else ONE


def times(a: Expression, b: Expression) -> Expression:
    """a * b. A choice between constants takes the other factor into its sides, so that 0 * x is 0."""
    if a is ZERO or b is ZERO:
        return ZERO
    for x, y in ((a, b), (b, a)):
        if x.op == "select" and any(side.op == CONSTANT for side in x.args[1:]) and y.op != CONSTANT:
            return _chosen(x.args[0], times(x.args[1], y), times(x.args[2], y))
    (c, left), (d, right) = _term(a), _term(b)
    return _product(c * d, left + right)


def negated(a: Expression) -> Expression:
    """-a, with the sign inside of a choice, a sum or a product."""
    if a.op == "select":
        return _chosen(a.args[0], negated(a.args[1]), negated(a.args[2]))
    if a.op in ("add", "sub"):
        return _sum([(-c, factors) for c, factors in _terms(a)])
    c, factors = _term(a)
    return _product(-c, factors)


def over(a: Expression, b: Expression) -> Expression:
    """a / b; for a number b it is a product with its reciprocal, which the host computes."""
    if a is ZERO or b is ONE:
        return a
    if b.op == CONSTANT and b.value:
        return times(a, constant(1 / b.value))
    c, factors = _term(a)
    if b.uniform and b in factors:
        rest = [*factors]
        rest.remove(b)
        return _product(c, rest)
    return times(a, ONE / b) if b.uniform and a is not ONE else a / b


# ---- sums ----------------------------------------------------------------------------------------------


def plus(a: Expression, b: Expression) -> Expression:
    """a + b."""
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    if a.op == b.op == "select" and a.args[0] is b.args[0]:
        return _chosen(a.args[0], plus(a.args[1], b.args[1]), plus(a.args[2], b.args[2]))
    return _sum([_term(a), _term(b)])


def _terms(e: Expression) -> list[Term]:
    """A sum as its terms."""
    if e.op in ("add", "sub"):
        sign_of_second = 1 if e.op == "add" else -1
        return _terms(e.args[0]) + [(c * sign_of_second, factors) for c, factors in _terms(e.args[1])]
    return [_term(e)]


def _added(terms: Sequence[Term]) -> list[Term]:
    """The terms without zeros, where those with equal factors are added."""
    sums: dict[Factors, float] = {}
    for c, factors in terms:
        sums[factors] = sums.get(factors, 0.0) + c
    return [(c, factors) for factors, c in sums.items() if c]


def _sum(terms: Sequence[Term]) -> Expression:
    """The sum of terms. The factor that most of them share is taken out, recursively.

    Sums among the terms are opened only if the terms differ as wholes: (a - b) + (a - b) is 2 * (a - b).
    """
    left = _added(terms)
    if len(left) > 1:
        opened = [(_terms(f[0]), c) if len(f) == 1 and abs(c) == 1 else ([(1.0, f)], c) for c, f in left]
        left = _added([(c * d, f) for inner, c in opened for d, f in inner])
    if len(left) < 2:
        return _product(*left[0]) if left else ZERO
    shared = _most_shared(left)
    if shared is None:
        return _joined([(math.copysign(1, c), _product(abs(c), f)) for c, f in left])
    inside, outside = [], []
    for c, factors in left:
        rest = [*factors]
        if shared in factors:
            rest.remove(shared)
            inside.append((c, tuple(rest)))
        else:
            outside.append((c, factors))
    scale = abs(inside[0][0]) if len({abs(c) for c, _ in inside}) == 1 else 1.0
    product = times(_product(scale, [shared]), _sum([(c / scale, f) for c, f in inside]))
    return _joined([(1.0, product), (1.0, _sum(outside))]) if outside else product


def _most_shared(terms: Sequence[Term]) -> Expression | None:
    """The factor of most terms, of several the one that is last in order; None if no two terms share one."""
    counts: dict[Expression, int] = {}
    for _, factors in terms:
        for f in dict.fromkeys(factors):
            counts[f] = counts.get(f, 0) + 1
    most = max(counts.values(), default=0)
    return max([f for f, n in counts.items() if n == most], key=in_order) if most > 1 else None


def _joined(parts: Sequence[tuple[float, Expression]]) -> Expression:
    """The sum of parts with signs, positive ones first."""
    signed = []
    for s, e in parts:
        c, factors = _term(e)
        signed.append((-s, _product(-c, factors)) if c < 0 else (s, e))
    signed.sort(key=lambda part: part[0] < 0)
    s, total = signed[0]
    total = -total if s < 0 else total
    for s, e in signed[1:]:
        total = total + e if s > 0 else total - e
    return total


# ---- choices -------------------------------------------------------------------------------------------


def _chosen(condition: Expression, a: Expression, b: Expression) -> Expression:
    return a if a is b else select(condition, a, b)


def pruned(e: Expression) -> Expression:
    """e without choices that an outer choice by the same condition has made."""
    known: dict[tuple[Expression, Any], Expression] = {}

    def walk(part: Expression, made: frozenset[tuple[Expression, bool]]) -> Expression:
        if not part.args:
            return part
        if (part, made) not in known:
            known[part, made] = step(part, made)
        return known[part, made]

    def step(part: Expression, made: frozenset[tuple[Expression, bool]]) -> Expression:
        if part.op != "select":
            return rebuilt(part, [walk(a, made) for a in part.args])
        condition, a, b = part.args
        for side, outcome in ((a, True), (b, False)):
            if (condition, outcome) in made:
                return walk(side, made)
        return _chosen(condition, walk(a, made | {(condition, True)}), walk(b, made | {(condition, False)}))

    return walk(e, frozenset())


def substituted(e: Expression, values: dict[str, Expression]) -> Expression:
    """e with other expressions in place of the inputs of these names."""
    made: dict[Expression, Expression] = {}
    for part in ordered([e]):
        if part.op == INPUT:
            made[part] = values.get(part.value, part)
        else:
            made[part] = rebuilt(part, [made[a] for a in part.args])
    return made[e]

