"""The machine that runs a random program of programs.py in any namespace with PyTorch's names.

Instructions that make no sense for a value are skipped, by its shape and memory only, so that two namespaces skip the
same ones. Where we differ from PyTorch on purpose, or PyTorch from its own documentation, a comment says what is
skipped.
"""

from __future__ import annotations

import contextlib
import functools
import importlib

import numpy as np
from onlooker import Onlooker
from program_functions import functions
from programs import ALONG, BINARY, FATAL, KEYS, SEVERAL, UNARY, VIEWED, VIEWS, WRITES, WRITES_OF, kind_of, mask

import autograd_gpu as ag
from autograd_gpu.backend.arrays import strides


def stretched(x):
    return any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True))


def overlapping(x):
    """Whether elements share their place by strides that are not 0: nobody says what a write does there."""
    if stretched(x):
        return False
    places = sum((s * np.arange(n).reshape((n,) + (1,) * (len(x.shape) - 1 - d))
                  for d, (s, n) in enumerate(zip(x.stride(), x.shape, strict=True))), np.zeros(x.shape, int))
    return len(np.unique(places)) < places.size


def fits(shape, onto):
    """Whether `shape` broadcasts to `onto`."""
    try:
        return np.broadcast_shapes(shape, onto) == tuple(onto)
    except ValueError:
        return False


class Machine(Onlooker):
    """Runs a program step by step in the namespace `ns`; `trace` is what an onlooker sees."""

    def __init__(self, ns, look=True):
        self.ns, self.look = ns, look
        self.functions = functions(ns)
        self.values, self.unrecorded, self.edges = [], [], []
        self.hooked = []
        self.held = []  # what only a variable of the user's keeps
        self.checkpoint = importlib.import_module(f"{ns.__name__}.utils.checkpoint").checkpoint
        self.changed = []  # nodes with a hook that changes the gradient
        self.seen = {}  # hook -> gradients that it saw
        self.trace = []
        self.identity = False  # whether hooks may hold a tensor itself
        self.spared = set()  # errors of PyTorch's that need not be ours, in what the graphs differentiated so far hold
        self.made = 0
        self.keep(self.leaf((3, 3)) * 1.0)
        for shape, requires_grad in (((3, 3), True), ((3,), True), ((3, 3), False)):
            self.keep(self.leaf(shape, requires_grad))

    def leaf(self, shape, requires_grad=True, columns=False):
        """A leaf; `columns`: its memory goes by columns."""
        self.made += 1
        values = np.random.default_rng(self.made).uniform(-1.0, 1.0, shape)
        if columns:
            x = self.ns.empty_strided(shape, (1, shape[0]), dtype=self.ns.float64)
            return x.copy_(self.ns.tensor(values)).requires_grad_(requires_grad)
        return self.ns.tensor(values, dtype=self.ns.float64, requires_grad=requires_grad)

    def keep(self, value, unrecorded=False):
        self.values.append(value)
        self.unrecorded.append(unrecorded)

    # ---- choosing -----------------------------------------------------------------------------------

    def readable(self, i):
        """Value i, None where it is a view made without recording of what requires grad: in PyTorch so does it."""
        i %= len(self.values)
        x = self.writable(i)
        if x is not None and self.unrecorded[i] and x._base is not None and x._base.requires_grad:
            return None
        return x

    def writable(self, i):
        """Value i, None where it is a view made before its base required grad."""
        i %= len(self.values)
        return None if self.unrecorded[i] == "before" else self.values[i]

    def fitting(self, j, shape, apart):
        """The first readable value from j on that broadcasts to `shape` and shares no memory with `apart`."""
        for k in range(len(self.values)):
            v = self.readable(j + k)
            if v is not None and fits(v.shape, shape) and self.memory(v) != self.memory(apart):
                return v
        return None

    def memory(self, x):
        """Identity of the memory of x."""
        if x is None:
            return None
        if hasattr(x, "untyped_storage"):
            return x.untyped_storage().data_ptr()
        if x.is_cuda:
            return x.array.data.mem.ptr
        return strides.address(strides.buffer_of(x.array))

    def mode(self, name):
        if name == "no_grad":
            return self.ns.no_grad()
        if name == "save_on_cpu" and self.ns is ag:  # PyTorch's checks no version of what is on the CPU already
            return self.ns.autograd.graph.save_on_cpu()
        self.identity = self.identity or name == "identity"
        if name in ("identity", "copy"):
            pack = (lambda t: t) if name == "identity" else (lambda t: t.clone())
            return self.ns.autograd.graph.saved_tensors_hooks(pack, lambda t: t)
        return contextlib.nullcontext()

    # ---- running ------------------------------------------------------------------------------------

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def run(self, program):
        for number, (name, *operands) in enumerate(program):
            self.step = name
            try:
                outcome = getattr(self, f"do_{name}")(*operands)
            except (RuntimeError, ValueError, IndexError) as error:
                outcome = kind_of(error)
            last = number == len(program) - 1 or outcome in FATAL
            states = [self.state(i, self.look or last) for i in range(len(self.values))]
            self.trace.append((outcome, states, frozenset(self.spared)))
            if outcome in FATAL:
                break
        self.trace.append((self.seen, [], frozenset()))
        return self.trace

    def state(self, i, whole):
        x = self.values[i]
        results = [array(x), x._is_view(), x._version, tuple(x.shape)]
        if not whole or self.unrecorded[i] == "before":
            return results
        try:
            results += [x.grad_fn is None]
            if not self.unrecorded[i]:
                retains = x.retains_grad and not x.is_leaf  # in PyTorch True also after detach_
                results += [x.requires_grad, x.is_leaf, retains]
                results += [None if x.grad is None else array(x.grad)] if x.is_leaf or retains else []
        except RuntimeError as error:
            results += [kind_of(error)]
        return results

    def do_leaf(self, requires_grad, columns):
        self.keep(self.leaf((3, 3), requires_grad, columns))

    def do_data(self, i, j):
        x = self.readable(i)
        v = None if x is None or overlapping(x) else self.fitting(j, x.shape, x)
        if v is None or x._is_view() or not x.is_leaf or self.identity or any(view._base is x for view in self.values):
            return "skipped"  # in PyTorch views share the version of the other memory, and a hook's tensor shows it
        x.data = v.detach().expand(x.shape).clone()

    def do_along(self, name, i, mode):
        x = self.readable(i)
        if x is None or x.ndim == 0 or len(np.unique(array(x))) < x.numel() or x.shape[0] < 2:
            return "skipped"  # which of equal elements is taken is nobody's contract
        with self.mode(mode):
            for y in ALONG[name](self.ns, x):
                self.keep(y)

    def do_unary(self, name, i, mode):
        x = self.readable(i)
        if x is None:
            return "skipped"
        with self.mode(mode):
            self.keep(UNARY[name](x))

    def do_binary(self, name, i, j, mode):
        x = self.readable(i)
        v = None if x is None else self.fitting(j, x.shape, None)
        if v is None:
            return "skipped"
        with self.mode(mode):
            self.keep(BINARY[name](x, v))

    def do_view(self, name, i, p, mode):
        (ndim, view), x = VIEWS[name], self.readable(i)
        if x is None or x.ndim < ndim or not x.numel() or x.ndim > 4:
            return "skipped"
        with self.mode(mode):
            y = view(x, p)
        self.keep(y, mode == "no_grad" and y._is_view())

    def do_views(self, name, i, mode):
        (ndim, views), x = SEVERAL[name], self.readable(i)
        if x is None or x.ndim < ndim or not x.numel() or not x.requires_grad:
            return "skipped"  # of a constant's views PyTorch says later that no_grad was on
        with self.mode(mode):
            for y in views(x)[:2]:
                self.keep(y, mode == "no_grad")

    def do_write(self, name, i, mode):
        x = self.writable(i)
        if x is None or overlapping(x) or (name in ("zero_", "fill_") and stretched(x)):
            return "skipped"  # PyTorch fills what expand() made, but has no derivative then
        with self.mode(mode):
            WRITES[name](x)

    def do_write_of(self, name, i, j, mode):
        x = self.writable(i)
        v = None if x is None else self.fitting(j, x.shape, x)
        if v is None or overlapping(x):
            return "skipped"
        with self.mode(mode):
            WRITES_OF[name](x, v)

    def do_indexed(self, name, i, j, mode):
        ns, x = self.ns, self.writable(i)
        if x is None or overlapping(x) or stretched(x) or x.ndim == 0 or not x.numel():
            return "skipped"
        shape = () if name == "masked_fill_of" else (2, *x.shape[1:])
        v = self.fitting(j, shape, x) if name in ("index_add_", "masked_fill_of", "index_copy_") else x
        if v is None:
            return "skipped"
        numbers = ns.tensor(np.array([0, x.shape[0] - 1]) if name != "index_copy_" or x.shape[0] > 1 else np.array([0]))
        with self.mode(mode):
            if name == "masked_fill_":
                x.masked_fill_(mask(ns, x), 0.25)
            elif name == "masked_fill_of":
                x.masked_fill_(mask(ns, x), v)
            elif name == "index_fill_":
                x.index_fill_(0, numbers, 0.25)
            else:
                v = v.expand(shape)[: len(numbers)] * 1.0  # PyTorch saves it, for its shape
                x.index_add_(0, numbers, v) if name == "index_add_" else x.index_copy_(0, numbers, v)

    def do_set(self, key, i, j, mode):
        (ndim, make), x = KEYS[key], self.writable(i)
        if x is None or overlapping(x) or x.ndim < ndim or not x.numel():
            return "skipped"
        if stretched(x) and key in ("numbers", "mixed", "mask"):
            return "skipped"  # deprecated there, with a warning
        at = make(self.ns, x)
        with self.ns.no_grad():
            shape = x.detach()[at].shape
        v = self.fitting(j, shape, x)
        with self.mode(mode):
            x[at] = 0.75 if v is None or j % 5 == 0 else v

    def do_viewed(self, name, i, mode):
        (ndim, view), x = VIEWED[name], self.readable(i)
        if x is None or x.ndim < ndim or x.ndim > 4 or any(x is t for t in self.hooked):
            return "skipped"  # in PyTorch hooks stay with the other shape, also those that are set later
        if mode == "no_grad" and x.requires_grad:
            return "skipped"  # gradients would not fit
        with self.mode(mode):
            view(x)

    def do_function(self, name, i, mode):
        x = self.readable(i)
        if x is None or (name == "double_" and overlapping(x)):
            return "skipped"
        words = {"factor": 3.0} if name == "keyword" else {}
        with self.mode(mode):
            outputs = self.functions[name].apply(x, **words)
        for y in (outputs[0], outputs[2]) if name == "numbered" else (outputs,):
            if y is not x:
                self.keep(y, mode == "no_grad" and y._is_view())

    def do_function_of(self, name, i, j, mode):
        x = self.readable(i)
        v = None if x is None else self.fitting(j, x.shape, None)
        if v is None:
            return "skipped"
        with self.mode(mode):
            for y in self.functions[name].apply(x, v):
                self.keep(y)

    def do_detach_(self, i):
        x = self.writable(i)
        if x is None or any(x is t for t in self.hooked):
            return "skipped"  # PyTorch fails at the next write if it retains a gradient
        x.detach_()

    def do_require(self, i, requires_grad):
        x = self.readable(i)
        if x is None or x._is_view():
            return "skipped"
        x.requires_grad_(requires_grad)
        for k, view in enumerate(self.values):
            self.unrecorded[k] = "before" if view._base is x else self.unrecorded[k]

    def do_hook(self, name, i):
        x = self.readable(i)
        if x is None or (x.requires_grad and x._is_view() and not x._base.requires_grad):
            return "skipped"  # PyTorch crashes
        self.hooked.append(x)
        seen, number, node = [], len(self.seen), x.grad_fn  # PyTorch crashes if nobody has looked at a stale view
        if name == "retain":
            x.retain_grad()
        else:
            x.register_hook(functools.partial(hook, seen, name))
            self.seen[number] = seen
            if name == "double":
                self.changed.append(node)

    def do_edge(self, i):
        x = self.readable(i)
        if x is None:
            return "skipped"
        self.edges.append(self.ns.autograd.graph.get_gradient_edge(x))

    # ---- differentiating ----------------------------------------------------------------------------

    def wanted(self, numbers):
        """Values by even numbers, edges by odd ones."""
        seen = []
        for n in numbers:
            x = self.edges[n // 2 % len(self.edges)] if n % 2 and self.edges else self.readable(n // 2)
            node = getattr(x, "node", None) or getattr(x, "grad_fn", None)
            # PyTorch hands out the gradient from before the hook if it has to run the node for another input
            if x is not None and not any(node is not None and node is other for other in self.changed):
                seen.append(x)
        return seen

    def outputs(self, numbers):
        outs = [x for x in map(self.readable, numbers) if x is not None]
        if self.hooked and len(outs) == 1:
            outs *= 2  # PyTorch runs the hooks of a single output also where no input depends on it
        self.spared |= spared([x.grad_fn for x in outs])
        return outs, [weights(self.ns, x.shape) for x in outs]

    def do_grad(self, outs, inputs, retain, create, unused):
        outs, gs = self.outputs(outs)
        inputs = self.wanted(inputs)
        if not outs or not inputs:
            return "skipped"
        result = self.ns.autograd.grad(outs, inputs, gs, retain_graph=retain, create_graph=bool(create),
                                      allow_unused=unused)
        answer = [None if g is None else array(g) for g in result]
        return (answer, self.second(result, inputs)) if create is True else answer

    def do_materialized(self, outs, inputs, create):
        outs, gs = self.outputs(outs)
        inputs = [x for x in self.wanted(inputs) if isinstance(x, self.ns.Tensor)]
        if not outs or not inputs:
            return "skipped"
        result = self.ns.autograd.grad(outs, inputs, gs, retain_graph=True, create_graph=create, materialize_grads=True)
        return [(array(g), g.requires_grad if create else None) for g in result]

    def second(self, actual, inputs):
        """The derivatives of |gradients|^2 by leaves: by a result they depend on how a rule is written.

        None counts as zeros, since what is structurally zero may be either.
        """
        leaves = [x for x in inputs if getattr(x, "is_leaf", False)]
        total = sum([(g * g).sum() for g in actual if g is not None and g.requires_grad])
        if isinstance(total, int) or not total.requires_grad or not leaves:
            return [np.zeros(1)] * len(leaves)
        second = self.ns.autograd.grad(total, leaves, allow_unused=True, retain_graph=True)
        return [np.zeros(1) if g is None else array(g) for g in second]

    def do_backward(self, outs, inputs, retain):
        outs, gs = self.outputs(outs)
        if not outs:
            return "skipped"
        # of a result PyTorch runs the grad_fn too, "an implementation detail on which the user should not rely"
        inputs = [x for x in map(self.readable, inputs) if x is not None and x.is_leaf and x.requires_grad]
        self.ns.autograd.backward(outs, gs, retain_graph=retain, **({"inputs": inputs} if inputs else {}))

    def do_clear(self):
        for i in range(len(self.values)):
            x = self.readable(i)
            if x is not None and x.is_leaf:
                x.grad = None


SPARING = ("HalfBackward", "UndefinedBackward", "AminmaxBackward0", "CummaxBackward0", "CumminBackward0")


def spared(nodes):
    """Which of FATAL PyTorch may raise for the graph of `nodes`, and we not.

    Behind an edge declared ZERO PyTorch goes on with None, and nodes of ours read less for fewer gradients: all. Its
    CopySlices is freed though it saves nothing: a second time.
    """
    result, seen, stack = set(), set(), [node for node in nodes if node is not None]
    while stack:
        node = stack.pop()
        if getattr(node, "zero_edges", ()) or node.name() in SPARING:
            result.update(FATAL)
        elif node.name() == "CopySlices":
            result.add(FATAL[1])
        if node not in seen:
            seen.add(node)
            stack += [child for child, _ in node.next_functions if child is not None]
    return result


def hook(seen, name, g):
    """Notes what it sees. PyTorch calls it with None, too, for one of several outputs that has no gradient."""
    if g is not None:
        seen.append(array(g))
        return g * 2.0 if name == "double" else None
    return None


def array(x):
    return np.array(x.numpy(force=True))


def weights(ns, shape):
    size = int(np.prod(shape))
    return ns.tensor(np.cos(np.arange(size, dtype=np.float64)).reshape(tuple(shape)), dtype=ns.float64)
