"""Random steps of a small model, as data, for `ag.compile`: what they do, and what happens between their calls.

A step is a list of (instruction, number, number, number). Operands are chosen from a pool of the arguments, the
parameters and all results so far, counted around, so that every list is a step and failures shrink to short ones.
"""

from __future__ import annotations

import contextlib
import threading
import warnings

import numpy as np

import autograd_gpu as ag
from autograd_gpu import func, nn, optim
from autograd_gpu.utils.checkpoint import checkpoint

F = nn.functional
NUMBERS = (0.5, -1.25, 2.0, 3.0)
PURE = {  # of two tensors with as many columns, and a small integer
    "add": lambda x, y, c: x + y,
    "mul": lambda x, y, c: x * y,
    "sub": lambda x, y, c: x - y.mean(0),
    "scale": lambda x, y, c: x * NUMBERS[c % 4],
    "tanh": lambda x, y, c: x.tanh(),
    "relu": lambda x, y, c: x.relu(),
    "silu": lambda x, y, c: F.silu(x),
    "exp": lambda x, y, c: (x * 0.1).exp(),
    "softmax": lambda x, y, c: x.softmax(-1),
    "matmul": lambda x, y, c: x @ y.transpose(0, 1) @ y,
    "linear": lambda x, y, c: F.linear(x, y.transpose(0, 1) @ y, y[0]).relu(),
    "variance": lambda x, y, c: x / (1 + x.var(1, keepdim=True)),
    "norm": lambda x, y, c: F.layer_norm(x, (4,), y[0]),
    "where": lambda x, y, c: ag.where(x > 0, x, y),
    "max": lambda x, y, c: x - x.max(1, keepdim=True)[0],
    "detach": lambda x, y, c: x.detach(),
    "clone": lambda x, y, c: x.clone(),
    "flip": lambda x, y, c: x.flip(0),
    "cat": lambda x, y, c: ag.cat([x[:1], y[1:]], 0),
    "columns": lambda x, y, c: x.t().contiguous().t(),
    "reshape": lambda x, y, c: x.reshape(-1).view(-1, 4),
    "index": lambda x, y, c: x[ag.tensor([2, 0, 1])],
    "rows": lambda x, y, c: x.expand(2, *x.shape)[c % 2],
    "half": lambda x, y, c: x.half().float(),
    "dropout": lambda x, y, c: F.dropout(x, 0.4),
    "randn": lambda x, y, c: ag.randn_like(x),
    "rand": lambda x, y, c: ag.rand(4) + x,
    "vmap": lambda x, y, c: func.vmap(func.grad(lambda r, s: (r.tanh() * s).sum()))(x, y.detach() if c % 2 else y),
    "hessian": lambda x, y, c: func.vmap(func.hessian(lambda r: (r.tanh() * r).sum()))(x).sum(1),
    "jvp": lambda x, y, c: func.jvp(lambda u: u.sin() * u, (x,), (y,))[1],
    "checkpoint": lambda x, y, c: checkpoint(lambda u, v: (u * v).tanh(), x, y, use_reentrant=False,
                                             preserve_rng_state=c % 2 == 1),
}  # fmt: skip
EFFECTS = (
    "write", "write_of", "write_row", "write_view", "write_argument", "no_grad", "float16_hooks", "backward", "grad",
    "zero_grad", "optimizer", "drop_grad", "use_grad", "write_grad", "factor", "clip", "module", "write_param",
)  # fmt: skip
INSTRUCTIONS = (*PURE, *EFFECTS, "backward", "optimizer", "module", "grad", "write_row")
BETWEEN = (
    "rate", "factor", "eval", "train", "attribute", "rows", "no_grad", "hooks", "thread", "autocast", "zero_grad",
    "write", "data", "backward", "requires_grad", "double",
)  # fmt: skip
KEPT = ("backward", "rows", "no_grad", "requires_grad", "double")  # hold for all later calls


class Half:
    """A pair of hooks that are made of operations."""

    pack = staticmethod(ag.compile.inlineable(lambda x: x.half() if x.dtype == ag.float32 else x))
    unpack = staticmethod(ag.compile.inlineable(lambda x: x.float() if x.dtype == ag.float16 else x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop, self.scale = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), 1.0

    def forward(self, x):
        return self.drop(self.norm(self.first(x)).tanh()) * self.scale


class Session:
    """A step with its parameters, model and optimizer. `log` is what an onlooker sees after each call."""

    def __init__(self, step, adam, compiled):
        ag.manual_seed(0)
        self.random = np.random.default_rng(0)
        self.instructions, self.factor = step, 1.0
        self.model = Model()
        self.params = [self.tensor(3, requires_grad=True) for _ in range(2)]
        leaves = [*self.params, *self.model.parameters()]
        self.optimizer = optim.Adam(leaves, lr=0.01) if adam else optim.SGD(leaves, lr=0.01, momentum=0.9)
        self.call = ag.compile(self.step) if compiled else self.step
        self.kept, self.log = set(), []

    def tensor(self, rows, requires_grad=False):
        return ag.tensor(self.random.normal(size=(rows, 4)).astype("f4") * 0.5, requires_grad=requires_grad)

    # ---- one call: it sets no attribute, since such a call stays eager ---------------------------------

    def step(self, *args):
        pool = [*args, *self.params]
        for name, a, b, c in self.instructions:
            x, y = pool[a % len(pool)], pool[b % len(pool)]
            made = [PURE[name](x, y, c)] if name in PURE else getattr(self, f"do_{name}")(args, x, y, c)
            pool += [] if made is None else made
        return pool[-1], pool[len(pool) // 2], pool[-3]

    def do_write(self, args, x, y, c):
        with ag.no_grad() if x.is_leaf and x.requires_grad else contextlib.nullcontext():
            x.mul_(NUMBERS[c % 4] * 0.5)

    def do_write_of(self, args, x, y, c):
        with ag.no_grad() if x.is_leaf and x.requires_grad else contextlib.nullcontext():
            x.add_(y, alpha=0.25)

    def do_write_row(self, args, x, y, c):
        z = x.clone()
        z[c % 3] = y[c % 2] * 0.5
        return [z]

    def do_write_view(self, args, x, y, c):
        z = x * 1.0
        view = z[:, c % 4]
        view.tanh_()
        return [z, z.t()[1:].t().clone().sum(1, keepdim=True) + x]

    def do_write_argument(self, args, x, y, c):
        if not args[1].requires_grad:
            args[1].add_(y.detach() * 0.1)

    def do_write_param(self, args, x, y, c):
        with ag.no_grad():
            self.params[c % 2].copy_(y)

    def do_no_grad(self, args, x, y, c):
        with ag.no_grad():
            return [x * y]

    def do_float16_hooks(self, args, x, y, c):
        with ag.autograd.graph.saved_tensors_hooks(Half.pack, Half.unpack):
            return [(x * y).tanh() * x]

    def do_backward(self, args, x, y, c):
        if x.requires_grad:
            (x * x).sum().backward(retain_graph=True)

    def do_grad(self, args, x, y, c):
        if x.requires_grad:
            found = ag.autograd.grad((x * x).sum(), self.params, create_graph=bool(c % 2), retain_graph=True,
                                     allow_unused=True)  # fmt: skip
            return [g for g in found if g is not None]
        return None

    def do_zero_grad(self, args, x, y, c):
        self.optimizer.zero_grad(set_to_none=bool(c % 2))

    def do_optimizer(self, args, x, y, c):
        self.optimizer.step()

    def do_drop_grad(self, args, x, y, c):
        self.params[c % 2].grad = None

    def do_use_grad(self, args, x, y, c):
        g = self.params[c % 2].grad
        return None if g is None else [g * 1.5]

    def do_write_grad(self, args, x, y, c):
        g = self.params[c % 2].grad
        if g is not None:
            g.mul_(0.5)

    def do_factor(self, args, x, y, c):
        return [x * self.factor]

    def do_clip(self, args, x, y, c):
        nn.utils.clip_grad_norm_(self.params, 1.0)

    def do_module(self, args, x, y, c):
        return [self.model(x)]

    # ---- between the calls ---------------------------------------------------------------------------

    def run(self, events):
        """Calls the step once per event ("" for none), and goes on until a call raises."""
        for event in events:
            self.happens(event)
            rows = 5 if "rows" in self.kept else 3
            args = [self.tensor(rows, requires_grad="requires_grad" in self.kept), self.tensor(rows)]
            if "double" in self.kept:
                args[1] = args[0].detach().double().float()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome = self.called(event, args)
            seen = [outcome, [*args, *self.params, *self.model.state_dict().values()], self.optimizer_state()]
            seen.append([x.grad if x.is_leaf else None for x in (*args, *self.params, *self.model.parameters())])
            # Versions of results count from where a call makes them: an eager one counts its own writes, too. Those of
            # an optimizer's counts of steps count from where something, such as a trace, first reads them.
            self.log.append([bits(part, versions=i in (1, 3)) for i, part in enumerate(seen)])
            if isinstance(outcome, str):
                break
        self.log.append(bits([ag.randn(2)]))
        return self.log

    def called(self, event, args):
        """The results, or the class of the error."""
        context = {
            "hooks": lambda: ag.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x),
            "autocast": lambda: ag.autocast("cpu", enabled=False),
        }.get(event, contextlib.nullcontext)
        try:
            with context(), ag.set_grad_enabled("no_grad" not in self.kept):
                results = on_a_thread(self.call, args) if event == "thread" else self.call(*args)
            if "backward" in self.kept:
                roots = [(x * (i + 1)).sum() for i, x in enumerate(results) if x.requires_grad]
                if roots:
                    sum(roots).backward()
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            return type(error).__name__
        return results

    def happens(self, event):
        if event in KEPT:
            self.kept ^= {event}
        elif event == "rate":
            self.optimizer.param_groups[0]["lr"] *= 0.5
        elif event == "factor":
            self.factor += 1.0
        elif event in ("eval", "train"):
            self.model.train(event == "train")
        elif event == "attribute":
            self.model.scale, self.model.drop.p = self.model.scale + 0.5, 0.1
        elif event == "zero_grad":
            self.optimizer.zero_grad()
        elif event == "write":
            with ag.no_grad():
                self.params[0].mul_(0.9)
        elif event == "data":
            self.params[1].data = self.params[1].data * 2

    def optimizer_state(self):
        return [v for row in self.optimizer.state_dict()["state"].values() for v in row.values()]


def on_a_thread(call, args):
    """call(*args) on another thread."""
    box = []

    def body():
        try:
            box.append(call(*args))
        except Exception as error:
            box.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if isinstance(box[0], Exception):
        raise box[0]
    return box[0]


def bits(x, versions=True):
    """Plain data that is equal if all bits, flags and, if asked for, versions are."""
    if isinstance(x, (list, tuple)):
        return [bits(part, versions) for part in x]
    if isinstance(x, ag.Tensor):
        array = x._array
        return array.tobytes(), array.shape, array.dtype.str, x.requires_grad, versions and x._version
    return x
