"""Functions of a tensor that `ag.compile` refuses to record, by name, and what the warning says.

make() gives the function; or it, what it is called with in the place of a leaf of shape (4, 3), and what is looked at.
"""

import contextlib
import itertools
import re
import warnings

import numpy as np

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.autograd import Function, grad
from autograd_gpu.utils.checkpoint import checkpoint

REFUSED = {}


def refused(pattern):
    """Registers make(), which gives a function of a tensor of shape (4, 3), and what the warning says."""

    def register(make):
        REFUSED[make.__name__] = make, pattern
        return make

    return register


@refused("the values of a tensor are read")
def item():
    return lambda x: x * x.sum().item()


@refused("the values of a tensor are read")
def branch():
    return lambda x: x * 2 if float(x.sum()) > 0 else x - 1


@refused("the values of a tensor are read")
def array():
    return lambda x: ag.as_tensor(x.array**2) + x


@refused("the values of a tensor are read")
def values_of_a_written_constant():
    def f(x):
        z = ag.zeros(3)
        z.add_(x[0])
        return x * 2 if bool((z > 0).all()) else x - 1

    return lambda x: f(x.detach())


@refused("the values of a tensor are read")
def values_at_places():
    return lambda x: x.masked_scatter(x > 0, ag.arange(12.0))


@refused("a tensor from outside, are read")
def values_from_outside():
    w = ag.tensor([2.0])
    return lambda x: x * w.item()


@refused("the values of a tensor are read")
def function_of_arrays():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            return ag.as_tensor(x.array * x.array)

    return Square.apply


@refused("the size of the result of advanced_index depends on values")
def mask():
    return lambda x: x[x > 0].sum()


@refused("the size of the result of repeat_positions depends on values")
def repeats():
    counts = ag.tensor([1, 2, 0, 1])
    return lambda x: x.repeat_interleave(counts, 0)


@refused("memory of a tensor is written to beside the operations")
def write_beside():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)  # which counts a write
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    return lambda x: Same.apply(x.detach()) * 2


@refused("the data of a tensor is replaced")
def data_of_a_parameter():
    w = nn.Parameter(ag.ones(3))

    def f(x):
        w.data = x[0].detach() * 2
        return x.detach() * w.detach()

    return f


@refused(r"storage_offset.. of a tensor is asked for")
def place_in_memory():
    rows = iter(range(100))

    def given(x):
        return ag.ones(100, 3)[(i := next(rows)) : i + 4]

    return lambda x: x * x.storage_offset(), given, None


@refused("a version is incremented by hand")
def version():
    b = ag.zeros(3)

    def f(x):
        ag.autograd.graph.increment_version(b)
        return x * b._version

    return f


@refused("a generator is seeded")
def seed():
    def f(x):
        ag.manual_seed(0)
        return x + ag.rand(3)

    return f


@refused("a checkpoint draws random numbers a second time")
def checkpointed_dropout():
    drop = nn.Dropout(0.5)

    def f(x):
        y = checkpoint(lambda z: drop(z).exp(), x, use_reentrant=False)
        return grad(y.sum(), x)[0]

    return f


@refused("a hook on a tensor or a node of the graph runs")
def tensor_hook():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return grad(y.sum(), x)[0]

    return f


@refused("the graph of a result has hooks")
def tensor_hook_on_a_result():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return y + 1

    return f


@refused("Linear has hooks")
def module_hook():
    m = nn.Linear(3, 2)
    m.register_forward_hook(lambda module, args, out: out * 2)
    return m


def trained(*more):
    m = nn.Linear(3, 2)
    o = optim.SGD(m.parameters(), lr=0.1)

    def f(x):
        o.zero_grad()
        loss = (m(x) ** 2).sum()
        loss.backward()
        o.step()
        for do in more:
            do(o)
        return loss.detach()

    return m, o, f


@refused("an optimizer has hooks")
def optimizer_hook():
    _, o, f = trained()
    o.register_step_post_hook(lambda *args: None)
    return f


@refused("Slower.step is not the library's")
def optimizer_of_a_user():
    class Slower(optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.data = p.data - 0.01 * p.grad

    w = ag.ones(3, requires_grad=True)
    o = Slower([w], lr=0.1)

    def f(x):
        w.grad = x.detach().sum(0)
        o.step()
        return w.detach() * 1

    return f


@refused(r"step\(\) of a learning-rate scheduler")
def scheduler():
    m, o, _ = trained()
    s = optim.lr_scheduler.StepLR(o, 100)

    def f(x):
        o.step()
        s.step()
        return m(x).detach()

    return f


@refused("the call changes options of an optimizer")
def options_after_the_step():
    def halve(o):
        vars(o)["param_groups"][0]["lr"] *= 0.5  # code that names o.param_groups is found earlier

    return trained(halve)[2]


@refused("the call changes options of an optimizer")
def options_before_the_step():
    _, o, step = trained()

    def f(x):
        vars(o)["param_groups"][0]["lr"] *= 0.5
        return step(x)

    return f


@refused("the call changes options of an optimizer")
def options_for_the_step_only():
    _, o, step = trained()

    def f(x):
        vars(o)["param_groups"][0]["lr"] *= 0.5
        loss = step(x)
        vars(o)["param_groups"][0]["lr"] *= 2.0
        return loss

    return f


@refused("a step of LBFGS")
def lbfgs():
    w = ag.ones(3, requires_grad=True)
    o = optim.LBFGS([w], max_iter=2)

    def f(x):
        def closure():
            o.zero_grad()
            loss = ((x.detach() @ w) ** 2).sum()
            loss.backward()
            return loss

        return o.step(closure).detach()

    return f


@refused("GradScaler.scale")
def grad_scaler():
    scaler = ag.amp.GradScaler("cpu")
    return lambda x: scaler.scale(x).detach()


@refused("the step of a differentiable optimizer")
def differentiable():
    w = ag.ones(3, requires_grad=True).clone()
    o = optim.SGD([w], lr=0.1, differentiable=True)

    def f(x):
        w.grad = x.detach().sum(0)
        o.step()
        return w.detach()

    return f


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.seen = 0, []

    def forward(self, x):
        self.calls += 1
        return x * 2


class Keeper(Counter):
    def forward(self, x):
        self.seen.append(x.detach())
        return x * 2


class Setter(Counter):
    def forward(self, x):
        self.last = x * 2
        return self.last


@refused("the call changes Counter.calls")
def attribute_of_a_module():
    return Counter()


@refused("the call changes Keeper.seen")
def list_of_a_module():
    return Keeper()


@refused("the call changes self.last")
def attribute_that_is_only_set():
    return Setter()


@refused("the call changes count")
def cell():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    return f


@refused("whose values differ from call to call and are no argument")
def numbers_of_numpy():
    random = np.random.default_rng(0)
    return lambda x: x * ag.tensor([random.random()])


@refused("got other options in the next call")
def numbers_of_python():
    random = np.random.default_rng(0)
    return lambda x: x * float(random.random())


@refused("ag.tensor copies the values of an array")
def copied_array():
    values = np.ones(3, "f4")
    return lambda x: x * ag.tensor(values)


@refused("saved-tensor hooks are set")
def saved_tensor_hooks():
    def f(x):
        with ag.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x.exp()
        return grad(y.sum(), x)[0]

    return f


@refused("a function is marked with compiler.disable")
def disabled():
    inner = ag.compiler.disable(lambda x: x * 2)
    return lambda x: inner(x) + 1


@refused("the call leaves a mode of the thread changed")
def mode_left_on():
    def f(x):
        y = x * 2
        ag.set_grad_enabled(not ag.is_grad_enabled())
        return y.detach()

    return f


@refused("another history, or another requires_grad")
def detached_outside():
    b = ag.zeros(4, 3)

    def f(x):
        b.detach_()
        b.add_(x)
        return b * 1

    return f


@refused("a checkpoint's policy replaces the forward of ops")
def policy_of_a_checkpoint():
    save = ag.utils.checkpoint.CheckpointPolicy.MUST_SAVE

    def contexts():
        return ag.utils.checkpoint.create_selective_checkpoint_contexts(lambda ctx, op, *args, **kwargs: save)

    return lambda x: grad(checkpoint(lambda z: z.exp(), x, use_reentrant=False, context_fn=contexts).sum(), x)[0]


@refused("a checkpoint draws random numbers a second time")
def checkpointed_rand():
    return lambda x: grad(checkpoint(lambda z: z * ag.rand(3), x, use_reentrant=False).sum(), x)[0]


@refused("a .grad that has a history is used")
def history_of_a_grad():
    w = ag.ones(3, requires_grad=True)
    (w * w * w).sum().backward(create_graph=True)
    return lambda x: (x * w.grad).sum()


@refused("a tensor from outside was computed from another one")
def outside_and_what_it_is_made_of():
    w = ag.ones(3, requires_grad=True)
    y = w * 2
    return lambda x: (x * y * w).sum()


@refused("the graph of one result was freed by a backward")
def one_graph_of_two_is_freed():
    def f(x):
        y, z = (x * x).sum(), (x * x * x).sum()
        y.backward()
        return y + z.detach(), z

    return f, None, lambda results: results[0].detach()


@refused("backward.. inside of the call reaches the history of an argument")
def history_of_an_argument():
    def f(x):
        (x * x).sum().backward()
        return x.detach() * 2

    return f, lambda x: x * 1


@refused("an argument gets another history, or another requires_grad")
def requires_grad_of_an_argument():
    def f(x):
        x.requires_grad_()
        return grad((x * x).sum(), x)[0]

    return f, lambda x: x.detach()


@refused("an argument shares memory with a tensor that the function knows")
def memory_of_an_argument():
    whole = ag.ones(5, 3)
    row = whole[0]
    return lambda x: x.mul_(2) + row * 1, lambda x: whole[:4]


@refused("a leaf is returned beside what is computed from it")
def leaf_beside_its_results():
    w = ag.ones(3, requires_grad=True)

    def f(x):
        return w * w * x.detach(), w

    return f, None, lambda results: grad(results[0].sum() + results[1].sum(), w)[0]


@refused("two leaves show one array")
def two_leaves_of_one_array():
    v = ag.ones(3, requires_grad=True)
    w = v.detach().requires_grad_()

    def f(x):
        return (x.detach() * v).sum() + (x.detach() * w * 2).sum()

    return f, None, lambda result: ag.stack(grad(result, (v, w)))


@refused("the backward of a result raises")
def backward_that_raises():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("no")

    return Wrong.apply


@refused("a tensor is converted to or from float8")
def float8_from_outside():
    w = ag.ones(4, 3).to(ag.float8_e4m3fn)
    return lambda x: x * w.float()


@refused("moves the codes of a float8 tensor")
def float8_codes():
    w = ag.ones(4, 3).to(ag.float8_e4m3fn)
    return lambda x: ag.cat([w, w]), None, lambda y: y.float()


@refused("a float8 tensor is used")
def float8_as_result():
    w = ag.ones(4, 3).to(ag.float8_e4m3fn)
    return lambda x: (w, x * 2), None, lambda results: results[0].float() * results[1].detach()


def varying(*branches):
    """A function that does in turns what the branches do; nothing that is watched tells which one."""
    turns = itertools.cycle(branches)
    return lambda x: next(turns)(x)


@refused("and the next one")
def number_of_operations():
    return varying(lambda x: x.detach() * 2, lambda x: x.detach() * 2 + 1)


@refused("in one call, and .* in the next one")
def other_operations():
    return varying(lambda x: x.sin(), lambda x: x.cos())


@refused("has another tensor in the next call")
def shape_of_an_operand():
    w, v = ag.ones(3), ag.ones(4, 3) * 2
    return varying(lambda x: x * w, lambda x: x * v)


@refused("uses a tensor that is another one in the next call")
def other_parameters():
    w, v = (nn.Parameter(ag.ones(3) * i) for i in (2, 3))
    return varying(lambda x: x * w, lambda x: x * v)


@refused("the call changes a container among its arguments")
def container_of_an_argument():
    return lambda xs: xs.append(1) or xs[0] * 2, lambda x: [x]


@refused("inside of saved-tensor hooks")
def unmarked_hooks_around_calls():
    around = contextlib.ExitStack()

    def given(x):
        around.enter_context(ag.autograd.graph.saved_tensors_hooks(lambda t: t, ag.compile.inlineable(lambda t: t)))
        return x

    def shown(y):
        around.close()
        return y

    return lambda x: x.exp(), given, shown


@refused("gets other tensors in the next call")
def order_of_operands():
    def minus(order):
        return lambda x: (lambda y, z: y - z)(*(x.sin(), x.cos())[::order])

    return varying(minus(1), minus(-1))


@refused("the structure of the result differs")
def structure_of_results():
    return varying(lambda x: [x * 2], lambda x: (x * 2,)), None, lambda results: results[0] * isinstance(results, list)


@refused("a result that is no tensor differs")
def numbers_beside_results():
    return varying(lambda x: (x * 2, 1), lambda x: (x * 2, 3)), None, lambda results: results[0] * results[1]


@refused("whether a result requires grad differs")
def history_of_results():
    return varying(lambda x: x, lambda x: x.detach()), None, lambda y: y.detach() * y.requires_grad


@refused("a result is made of other tensors")
def other_results():
    return varying(lambda x: (x.sin(), x.cos()), lambda x: (x.sin(), x.cos())[::-1]), None, lambda y: y[0]


@refused("the .grad of another tensor is set")
def other_grads():
    w, v = (ag.ones(3, requires_grad=True) for _ in range(2))

    def setting(i):
        def f(x):
            w.grad = v.grad = None
            (w, v)[i].grad = x[0].detach() * 2
            return x.detach() * 1

        return f

    return varying(setting(0), setting(1)), None, lambda y: ag.stack([t.grad for t in (w, v) if t.grad is not None])


def calls(f, count=7, given=None, shown=None):
    """The results of calls, as bytes. given(x): what f gets in the place of x; shown(result): what is looked at."""
    random, seen = np.random.default_rng(1), []
    for _ in range(count):
        x = ag.tensor(random.uniform(-1, 1, (4, 3)).astype("f4"), requires_grad=True)
        result = f(x if given is None else given(x))
        seen.append((result if shown is None else shown(result))._array.tobytes())
    return seen


def started(make):
    """The function, and what `calls` gets besides: how it is called."""
    ag.manual_seed(0)
    made = make()
    ag.manual_seed(1)
    f, given, shown = (*made, None, None)[:3] if isinstance(made, tuple) else (made, None, None)
    return f, {"given": given, "shown": shown}


def fault(name):
    """What is wrong with the compiled run of one of the functions, or ""."""
    make, pattern = REFUSED[name]
    f, options = started(make)
    expected = calls(f, **options)
    f, options = started(make)
    f = ag.compile(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            seen = calls(f, **options)
        except Exception as error:
            return f"raises {error!r}"
        if seen != expected:
            return "other results"
    warned = [str(w.message) for w in caught if "runs eagerly" in str(w.message)]
    if len(warned) != 1 or not re.search(pattern, warned[0]):
        return f"it warns of {warned}"
    return "" if f.counts.compiled == 0 and f.counts.eager >= 3 else f"not refused: {f.counts}"
