"""Cases about what makes a program of its own: arguments, modes and hooks around the call, threads."""

import contextlib
import threading

import autograd_gpu as ag
from autograd_gpu import nn

from .common import bits, called, case, data, each, in_turns, replaying


@case
def shapes_and_dtypes(wrap):
    f = wrap(lambda x: (x * 2 + x.shape[0] + x.stride()[0], x.sum(0), x.is_contiguous()))
    g = wrap(lambda x: x.ravel().sin())
    samples = [
        lambda i: (data(i, 2, 6),), lambda i: (data(i, 4, 6),), lambda i: (data(i, 6, 2),),
        lambda i: (data(i, 6, 2).T,),
        lambda i: (data(i, 2, 6).double(),), lambda i: (data(i, 2, 12)[:, ::2],), lambda i: (data(i, 6, 2).T.exp(),),
    ]  # fmt: skip
    return in_turns(f, samples), in_turns(g, samples)


@case
def orders_of_memory_in_turns(wrap):
    f = wrap(lambda x: (x * 2, x.is_contiguous()))
    return in_turns(f, [lambda i: (data(i, 2, 6),), lambda i: (data(i, 6, 2).T.exp(),)])


@case
def whether_an_argument_requires_grad(wrap):
    f = wrap(lambda x: x * x if x.requires_grad else x * 3)
    return in_turns(f, [lambda i: (data(i),), lambda i: (data(i, requires_grad=True),), lambda i: (data(i) * 1,),
                        lambda i: (data(i, requires_grad=True) * 1,)])  # fmt: skip


@case
def numbers(wrap):
    f = wrap(lambda x, n: (x * n, x + n, (x > 0) * n, isinstance(n, bool)))
    return in_turns(f, [lambda i, n=n: (data(i), n) for n in (2, 2.0, True, 1, 0.0, -0.0, float("inf"))])


@case
def structures(wrap):
    def f(x):
        if isinstance(x, dict):
            return x["a"] - x["b"] * 2, list(x)
        return (x[0] - x[1] * 2, type(x).__name__)

    return in_turns(wrap(f), [lambda i: ([data(i), data(i + 9)],), lambda i: ((data(i), data(i + 9)),),
                              lambda i: ({"a": data(i), "b": data(i)},), lambda i: ({"b": data(i), "a": data(i)},),
                              lambda i: ([data(i), 2.0],)])  # fmt: skip


@case
def names_of_arguments(wrap):
    def f(x, *more, y=1.0, **others):
        return x * y + len(more), sorted(others)

    f, log = wrap(f), []
    for i in range(16):
        x = data(i)
        args, options = [((x,), {}), ((x, 2), {}), ((x,), {"y": data(i, 3)}), ((x,), {"z": 3})][i // 4]
        log.append(called(f, *args, **options))
    return log


@case
def shared_memory_of_arguments(wrap):
    f = wrap(lambda x, y: (y * 2).sin() + x.add_(1) + y * 2)
    rows = lambda i: data(i, 5, 3)  # noqa: E731

    def whole(i):
        x = rows(i)[:4]
        return x, x

    def part(distance):
        def make(i):
            x = rows(i)
            return x[:3], x[distance : distance + 3]

        return make

    return in_turns(f, [lambda i: (x := rows(i)[:3], x.detach()), part(1), part(2), whole,
                        lambda i: (rows(i)[:4], rows(i + 9)[:4]), lambda i: (rows(i), rows(i)),
                        lambda i: (x := rows(i), x), lambda i: (x := rows(i), x.detach())])  # fmt: skip


@case
def which_arguments_share_memory(wrap):
    f = wrap(lambda x, y, z: (x.add_(1).sum(), y * 2, z.mul_(2) + y))

    def of_three(one, other):
        def make(i):
            xs = [data(i + k) for k in range(3)]
            xs[other] = xs[one].detach()
            return xs

        return make

    return in_turns(f, [of_three(0, 1), of_three(1, 2), of_three(0, 2), lambda i: (x := data(i), x, x)])


@case
def one_leaf_twice_and_two_leaves_of_one_array(wrap):
    f, log = wrap(lambda x, y: (x * y * 2).sum()), []
    for i, twice in enumerate((True, True, True, True, False, False, True, False)):
        x = data(i, requires_grad=True)
        y = x if twice else x.detach().requires_grad_()
        f(x, y).backward()
        log.append(bits([x.grad, y.grad]))
    return log


@case
def parameters_as_arguments(wrap):
    ag.manual_seed(0)
    layer, other = nn.Linear(3, 3), nn.Parameter(data(7, 3, 3))
    f = wrap(lambda w, x: x @ layer.weight.mT + w)
    log = in_turns(f, [lambda i: (layer.weight, data(i, 3, 3)), lambda i: (other, data(i, 3, 3)),
                       lambda i: (data(i, 3, 3, requires_grad=True), data(i, 3, 3))])  # fmt: skip
    return log, bits(list(layer.parameters()))


@case
def modes_of_the_caller(wrap):
    f = wrap(lambda x: (x * 2, (x * 2).requires_grad, ag.zeros(2), ag.is_grad_enabled()))
    log = []

    @contextlib.contextmanager
    def double():
        ag.set_default_dtype(ag.float64)
        try:
            yield
        finally:
            ag.set_default_dtype(ag.float32)

    around = [contextlib.nullcontext, double, contextlib.nullcontext, ag.no_grad, ag.inference_mode]
    for context in (*around, *around):
        with context():
            log += [called(f, data(i, requires_grad=True)) for i in range(4)]
    x = [ag.ones(2)]
    with ag.inference_mode():
        x.append(ag.ones(2))
    g = wrap(lambda x: (x * 2, x.is_inference()))
    return log + [called(g, x[i]) for i in (0, 0, 0, 1, 1, 1, 0, 1)]


@case
def precision_of_products(wrap):
    f, log = wrap(lambda x: (x @ x.mT, ag.get_float32_matmul_precision())), []
    try:
        for precision in ("highest", "high") * 2:
            ag.set_float32_matmul_precision(precision)
            log += each(f, 3)
    finally:
        ag.set_float32_matmul_precision("highest")
    return log


@replaying(12)
def hooks_around_calls(wrap):
    f, log = wrap(lambda x: (x * 3).exp().tanh().sum()), []
    for dtype in (None, "float8_e4m3fn", "bfloat16", None, "float16"):
        for i in range(4):
            x = data(i, requires_grad=True)
            with contextlib.nullcontext() if dtype is None else ag.hooks.quantize(dtype, min_bytes=0):
                y = f(x)
            y.backward()
            log.append(bits(x.grad))
    return log


@case
def hooks_of_cells_around_calls(wrap):
    class Method:
        def __init__(self, factor):
            self.factor = factor

        @ag.compile.inlineable
        def pack(self, t):
            return t * self.factor

    def pairs(factor):
        functions = (lambda t: t * factor, lambda t: t + factor, lambda t, n=factor: t * n, Method(factor).pack)
        unpack = ag.compile.inlineable(lambda t: t)
        return [(ag.compile.inlineable(f) if i < 3 else f, unpack) for i, f in enumerate(functions)]

    f, log = wrap(lambda x: x.exp().sum()), []
    for k in range(4):
        for hooks in (*pairs(2.0), *pairs(3.0), *pairs(2)):
            x = data(k, requires_grad=True)
            with ag.autograd.graph.saved_tensors_hooks(*hooks):
                y = f(x)
            y.backward()
            log.append(bits(x.grad))
    return log


@case
def inside_of_others(wrap):
    f = wrap(lambda x: (x * x).sum())
    outer = wrap(lambda x: f(x) * 2)
    log = [called(ag.func.vmap(f), data(i)) for i in range(4)]
    log += [called(f, data(i)) for i in range(4)] + [called(outer, data(i)) for i in range(4)]
    return log + [called(ag.func.vmap(f), data(i)) for i in range(4)] + [called(ag.func.grad(f), data(1))]


@case
def threads(wrap):
    w = data(1, 3, requires_grad=True)
    f, log = wrap(lambda x: (x * w).sum()), []

    def body(k):
        for i in range(4):
            with ag.no_grad() if k % 2 else contextlib.nullcontext():
                log.append(called(f, data(i)))

    for k in range(3):
        thread = threading.Thread(target=body, args=(k,))
        thread.start()
        thread.join()
        body(k + 1)
    return log
