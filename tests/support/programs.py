"""Random programs on tensors, as data.

A program is a list of small tuples (instruction, operands...), run by `machine.Machine`. Operands are numbers of
values, counted around, so that every list is a program and failures shrink to short ones.
"""

from __future__ import annotations

import numpy as np
import program_functions
import pytest

st = pytest.importorskip("hypothesis.strategies")

UNARY = {
    "sin": lambda x: x.sin(),
    "exp": lambda x: x.exp(),
    "tanh": lambda x: x.tanh(),
    "relu": lambda x: x.relu(),
    "square": lambda x: x * x,
    "scale": lambda x: x * 0.5,
    "shift": lambda x: x + 1.0,
    "sum": lambda x: x.sum(),
    "clone": lambda x: x.clone(),
    "reciprocal": lambda x: 1.0 / (x * x + 1.0),
    "cube": lambda x: x**3,
    "floor": lambda x: x.floor(),
}
BINARY = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "sub": lambda a, b: a - b,
    "quotient": lambda a, b: a * (1.0 / (b * b + 1.0)),
    "div": lambda a, b: a / (b * b + 1.0),
}
# Along dimension 0 of values that differ: a node with one or two outputs, of which indices may be one.
ALONG = {
    "max": lambda ns, x: x.max(0)[:1],
    "sort": lambda ns, x: x.sort(0)[:1],
    "cummax": lambda ns, x: x.cummax(0)[:1],
    "var_mean": lambda ns, x: ns.var_mean(x, 0),
    "aminmax": lambda ns, x: ns.aminmax(x, dim=0),
}
# One view. `p` chooses among places.
VIEWS = {
    "select": (1, lambda x, p: x.select(p % x.ndim, p % x.shape[p % x.ndim])),
    "first": (1, lambda x, p: x[0]),
    "slice": (1, lambda x, p: x[p % 2 :]),
    "step": (1, lambda x, p: x[..., ::2]),
    "transpose": (1, lambda x, p: x.transpose(0, -1)),
    "reshape": (0, lambda x, p: x.reshape(-1)),
    "view": (0, lambda x, p: x.view(-1)),
    "expand": (0, lambda x, p: x.expand(2, *x.shape)),
    "unsqueeze": (0, lambda x, p: x.unsqueeze(0)),
    "squeeze": (0, lambda x, p: x.squeeze()),
    "diagonal": (2, lambda x, p: x.diagonal(p % 2)),
    "unfold": (1, lambda x, p: x.unfold(0, min(2, x.shape[0]), 1 + p % 2)),
    "narrow": (1, lambda x, p: x.narrow(0, x.shape[0] - 1, 1)),
    "detach": (0, lambda x, p: x.detach()),
    "data": (0, lambda x, p: x.data),
    "view_as": (0, lambda x, p: x.view_as(x)),
}
SEVERAL = {
    "unbind": (1, lambda x: x.unbind(0)),
    "split": (1, lambda x: x.split(2, 0)),
    "chunk": (1, lambda x: x.chunk(2, -1)),
}
WRITES = {
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(0.5),
    "mul_": lambda x: x.mul_(0.5),
    "add_": lambda x: x.add_(1.0),
    "sin_": lambda x: x.sin_(),
    "exp_": lambda x: x.exp_(),
    "tanh_": lambda x: x.tanh_(),
    "relu_": lambda x: x.relu_(),
    "sigmoid_": lambda x: x.sigmoid_(),
    "square_": lambda x: x.square_(),
    "pow_": lambda x: x.pow_(2),
    "neg_": lambda x: x.neg_(),
    "clamp_": lambda x: x.clamp_(-0.5, 0.8),
}
WRITES_OF = {
    "add_": lambda x, v: x.add_(v, alpha=0.5),
    "sub_": lambda x, v: x.sub_(v),
    "mul_": lambda x, v: x.mul_(v),
    "div_": lambda x, v: x.div_(v * v + 1.0),
    "copy_": lambda x, v: x.copy_(v),
    "lerp_": lambda x, v: x.lerp_(v.expand(x.shape), 0.25),
    "addcmul_": lambda x, v: x.addcmul_(v, v, value=0.5),
}
INDEXED = ("masked_fill_", "index_add_", "index_fill_", "masked_fill_of", "index_copy_")
KEYS = {
    "int": (1, lambda ns, x: 0),
    "slice": (1, lambda ns, x: slice(1, None)),
    "ellipsis": (0, lambda ns, x: ...),
    "column": (1, lambda ns, x: (..., -1)),
    "none": (0, lambda ns, x: None),
    "numbers": (1, lambda ns, x: ns.tensor(np.array([x.shape[0] - 1]))),
    "mixed": (2, lambda ns, x: (slice(None), ns.tensor(np.array([0])))),
    "mask": (0, lambda ns, x: mask(ns, x)),
}
VIEWED = {
    "t_": (0, lambda x: x.t_() if x.ndim <= 2 else x.transpose_(0, 1)),
    "unsqueeze_": (0, lambda x: x.unsqueeze_(0)),
    "squeeze_": (0, lambda x: x.squeeze_()),
    "transpose_": (1, lambda x: x.transpose_(0, -1)),
}


def mask(ns, x):
    size = int(np.prod(x.shape))
    return ns.tensor((np.arange(size) % 2 == 0).reshape(x.shape))


# The classes of errors, by what of PyTorch's text a user searches for.
ERRORS = (
    "modified by an inplace operation", "a view of a leaf Variable that requires grad is being used",
    "a leaf Variable that requires grad is being used", "a leaf Variable that requires grad has been used",
    "This view was created inside a custom Function", "created in no_grad mode and is being",
    "created in no_grad mode and its base", "is a view and is being modified inplace. This view is the output of",
    "is a view and its base or another view of its base has been modified inplace. This view is the output of",
    "backward through the graph a second time", "not have been used in the graph", "does not require grad",
    "detached in-place, i.e. with .detach_()", "Can't detach views in-place", "single memory location",
    "view size is not compatible", "can't retain_grad", "doesn't require gradient", "do not require gradients",
    "you can only change requires_grad flags", "A different number of tensors was saved",
)  # fmt: skip
# After these the graph is half done: the program ends.
FATAL = (
    "modified by an inplace operation", "backward through the graph a second time",
    "detached in-place, i.e. with .detach_()",
)  # fmt: skip


def kind_of(error):
    """The class of an error; the text itself where it is none of those that a program may meet."""
    return next((kind for kind in ERRORS if kind in str(error)), f"{type(error).__name__}: {error}")


def sampled(names):
    return st.sampled_from(list(names))


number, flag = st.integers(0, 11), st.booleans()
mode = sampled(["", "", "", "no_grad", "identity", "copy", "save_on_cpu"])
# What a write saves behind an identity hook is in memory of its own here, and changes with later writes in PyTorch.
write_mode = sampled(["", "", "", "no_grad", "copy"])
several = st.lists(number, min_size=1, max_size=2)
# Operations, views and writes: what has a functional form, too. `mode` is how it runs.
PURE = [
    st.tuples(st.just("unary"), sampled(UNARY), number, mode),
    st.tuples(st.just("binary"), sampled(BINARY), number, number, mode),
    st.tuples(st.just("view"), sampled(VIEWS), number, number, sampled(["", "", "no_grad"])),
    st.tuples(st.just("view"), sampled(VIEWS), number, number, sampled(["", "", "no_grad"])),
    st.tuples(st.just("write"), sampled(WRITES), number, write_mode),
    st.tuples(st.just("write"), sampled(WRITES), number, write_mode),
    st.tuples(st.just("write_of"), sampled(WRITES_OF), number, number, write_mode),
    st.tuples(st.just("indexed"), sampled(INDEXED), number, number, write_mode),
    st.tuples(st.just("set"), sampled(KEYS), number, number, write_mode),
    st.tuples(st.just("viewed"), sampled(VIEWED), number, write_mode),
]
OTHER = [
    st.tuples(st.just("leaf"), flag, flag),
    st.tuples(st.just("data"), number, number),
    st.tuples(st.just("along"), sampled(ALONG), number, write_mode),
    st.tuples(st.just("views"), sampled(SEVERAL), number, sampled(["", "no_grad"])),
    st.tuples(st.just("function"), sampled(program_functions.UNARY), number, write_mode),
    st.tuples(st.just("function_of"), sampled(program_functions.BINARY), number, number, write_mode),
    st.tuples(st.just("checkpoint"), sampled(UNARY), number, flag),
    st.tuples(st.just("detach_"), number),
    st.tuples(st.just("require"), number, flag),
    st.tuples(st.just("hook"), sampled(["double", "look", "retain"]), number),
    st.tuples(st.just("edge"), number),
    st.tuples(st.just("watch"), number),
    st.tuples(st.just("order"), number),
    st.tuples(st.just("push"), number),
    # outputs, inputs as in Machine.wanted, retain_graph, create_graph, allow_unused
    st.tuples(st.just("grad"), several, st.lists(st.integers(0, 23), min_size=1, max_size=3), flag, flag,
              sampled([True, True, False])),
    st.tuples(st.just("materialized"), several, st.lists(st.integers(0, 23), min_size=1, max_size=3), flag),
    st.tuples(st.just("backward"), several, st.lists(number, max_size=2), flag),
    st.tuples(st.just("threads"), several),
    st.tuples(st.just("clear")),
]  # fmt: skip


@st.composite
def program(draw):
    body = draw(st.lists(st.one_of(*PURE, *OTHER), min_size=1, max_size=10))
    last = draw(number)
    asked = ("grad", [last], [2, 4, 0, draw(number)], True, draw(flag), True)
    return [*body, *([asked] if draw(flag) else []), ("backward", [last], [], False)]


@st.composite
def pure_program(draw):
    """Without modes, and without views that share memory but no history: these have no functional form."""
    steps = draw(st.lists(st.one_of(*PURE), min_size=1, max_size=12))
    return [(*step[:-1], "") for step in steps if step[1] not in ("detach", "data")]


def in_mode(program, mode):
    """The same program with this mode on where none was."""
    return [(*step[:-1], mode) if step[-1] == "" else step for step in program]


def with_grads(program, create):
    """The same program whose graphs are kept, and whose gradients are recorded or not."""
    return [(*step[:3], True, create, step[5]) if step[0] == "grad" else step for step in program]
