"""Cases about what code names: globals, variables, attributes of objects and modules."""

import functools

import autograd_gpu as ag
from autograd_gpu import nn

from .common import called, case, changing, data, each

FACTOR = 2.0


class Options:
    """Attributes of an instance, of its class, and in a slot."""

    of_class = 2.0

    def __init__(self):
        self.scale, self.numbers, self.nested = 2.0, [1.0, 2.0], {"a": [[1.0], {2.0}]}


class Slots:
    """An attribute in a slot."""

    __slots__ = ("options",)

    def __init__(self, options):
        self.options = options


@case
def globals_cells_and_attributes(wrap):
    box, factor, table = Slots(Options()), 2.0, {"scale": 2.0, "all": [1.0, 2.0]}

    def set_global(value):
        globals()["FACTOR"] = value

    def set_cell():
        nonlocal factor
        factor = 5.0

    def set_class(value):
        Options.of_class = value

    def f(x):
        options = box.options
        y = x * FACTOR + factor * options.scale + options.of_class + box.options.numbers[0]
        return y * table["scale"] + table["all"][-1] + len(options.nested["a"][1]) + options.nested["a"][0][0]

    changes = [
        lambda: set_global(3.0), set_cell, lambda: setattr(box.options, "scale", 3.0), lambda: set_class(4.0),
        lambda: setattr(box.options, "of_class", 7.0), lambda: box.options.numbers.insert(0, 4.0),
    ]  # fmt: skip
    more = [
        lambda: box.options.nested["a"][1].add(9.0), lambda: box.options.nested["a"][0].insert(0, 3.0),
        lambda: table.update(scale=4.0), lambda: table["all"].append(3.0), lambda: setattr(box, "options", Options()),
    ]  # fmt: skip
    try:
        return changing(f, wrap, *changes), changing(f, wrap, *more)
    finally:
        set_global(2.0), set_class(2.0)


@case
def attributes_by_variables(wrap):
    """Attributes of variables, of elements of containers, and of arguments by keyword."""
    holder, blocks = Slots(Options()), [Options(), Options()]
    table, layers = {"a": Options()}, nn.ModuleList([nn.Identity(), nn.Identity()])
    layers[1].gain = 2.0

    def inner(x, options, *, more):
        kept = options
        return x * kept.scale + more.numbers[0]

    def f(x):
        options = holder.options
        for i, block in enumerate(blocks):
            x = x * block.scale + i
        for layer in layers:
            x = x * getattr(layer, "gain", 1.0) if layer is layers[0] else x * layer.gain
        return inner(x, options, more=table["a"]) * table["a"].of_class + options.nested["a"][0][0]

    return changing(f, wrap, lambda: setattr(holder.options, "scale", 3.0), lambda: setattr(blocks[0], "scale", 4.0),
                    lambda: setattr(table["a"], "of_class", 5.0), lambda: table["a"].numbers.insert(0, 8.0),
                    lambda: setattr(layers[1], "gain", 7.0),
                    lambda: holder.options.nested["a"][0].insert(0, 9.0))  # fmt: skip


@case
def attributes_of_arguments(wrap):
    options, more = Options(), Options()
    f, log = wrap(lambda x, options, *, more: x * options.scale + more.numbers[0] + more.scale), []
    for i in range(12):
        if i % 4 == 0:
            (options, more)[i // 4 % 2].scale += i
        log.append(called(f, data(i), options, more=more))
    return log


@case
def contents_of_defaults(wrap):
    def make(numbers, table, pair):
        def f(x, n=numbers, *, t=table):
            return x * n[0] + t["a"] + pair[0][0]

        return f

    numbers, table, pair = [2.0], {"a": 1.0}, ([3.0], 1)
    return changing(make(numbers, table, pair), wrap, lambda: numbers.insert(0, 4.0), lambda: table.update(a=5.0),
                    lambda: pair[0].insert(0, 6.0))  # fmt: skip


@case
def equal_values(wrap):
    """1 is not True, 0.0 is not -0.0, and a tuple holds what it holds."""
    box = Options()

    def f(x):
        return x * box.scale, isinstance(box.scale, bool)

    def g(x):
        return x * box.scale[0] + box.scale[1][0]

    changes = [lambda v=v: setattr(box, "scale", v) for v in (1, True, 0.0, -0.0, float("nan"))]
    tuples = [lambda v=v: setattr(box, "scale", v) for v in ((1.0, (2.0,)), (1.0, (3.0,)), (2.0, (3.0,)))]
    tuples[0]()
    return changing(g, wrap, *tuples), setattr(box, "scale", 1.0), changing(f, wrap, *changes)


@case
def functions_named_by_code(wrap):
    def scaled(n):
        return lambda x: x * n

    inner = {"f": scaled(2.0)}
    held = scaled(3.0)
    method = Options()
    method.call = scaled(4.0)

    def f(x):
        return inner["f"](x) + held(x) + method.call(x)

    def set_held():
        nonlocal held
        held = scaled(5.0)

    return changing(f, wrap, lambda: inner.update(f=scaled(7.0)), set_held,
                    lambda: setattr(method, "call", scaled(1.5)))  # fmt: skip


@case
def defaults_partials_and_methods(wrap):
    class Model:
        scale = 2.0

        def run(self, x):
            return x * self.scale

    a, b, n = Model(), Model(), [2.0]
    b.scale = 3.0
    f = wrap(functools.partial(lambda n, x: x * n[0], n))
    log = each(f, 4) + changing(a.run, wrap, lambda: setattr(a, "scale", 5.0), lambda: setattr(Model, "scale", 7.0),
                                lambda: delattr(a, "scale"))  # fmt: skip
    n[0] = 4.0
    return log + each(f, 4) + each(wrap(b.run), 4)


class Layer(nn.Module):
    """A module with attributes of several kinds."""

    of_class = 1.0

    def __init__(self):
        super().__init__()
        self.factor, self.scales, self.layer, self.drop = 2.0, [1.0], nn.Linear(3, 3), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layer(x)) * self.factor * self.scales[-1] + self.of_class


@case
def attributes_of_modules(wrap):
    ag.manual_seed(0)
    m = Layer()
    changes = [
        lambda: setattr(m, "factor", 3.0), m.eval, lambda: m.scales.append(2.0), m.train,
        lambda: setattr(m.drop, "p", 0.25), lambda: setattr(m, "layer", nn.Linear(3, 3)),
        lambda: setattr(m, "of_class", 5.0),
    ]  # fmt: skip
    more = [
        lambda: setattr(m.layer, "forward", lambda x: x * 7), lambda: m.__dict__.update(factor=9.0),
        lambda: m._parameters.update(extra=nn.Parameter(ag.zeros(3))), lambda: m.drop.__setstate__({"p": 0.1}),
        lambda: delattr(m.layer, "forward"),
    ]  # fmt: skip
    ag.manual_seed(3)
    return changing(lambda x: m(x), wrap, *changes), changing(m, wrap, *more)


@case
def children_of_lists_of_modules(wrap):
    ag.manual_seed(0)
    layers = nn.ModuleList([nn.ModuleList([nn.Linear(3, 3), nn.Tanh()]) for _ in range(2)])

    def f(x):
        for pair in layers:
            for layer in pair:
                x = layer(x)
        return x

    return changing(f, wrap, lambda: layers[1].__setitem__(0, nn.Linear(3, 3)), lambda: layers.append(nn.ModuleList()),
                    lambda: layers[0].append(nn.ReLU()), lambda: layers.__delitem__(1))  # fmt: skip


@case
def modules_that_run_fused(wrap):
    ag.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.LeakyReLU(), nn.Linear(3, 2))
    return changing(model, wrap, lambda: setattr(model[0], "weight", nn.Parameter(ag.full((3, 3), 2.0))),
                    lambda: setattr(model[1], "negative_slope", 0.5),
                    lambda: setattr(model[1], "forward", lambda x: x * 7))  # fmt: skip


@case
def replaced_parameters_of_a_module(wrap):
    """functional_call puts others in the place of parameters, and puts them back."""
    ag.manual_seed(0)
    m, w = nn.Linear(3, 3), data(5, 3, 3)
    f = wrap(functools.partial(ag.func.functional_call, m))
    before = [called(f, {"weight": w * i}, (data(i),)) for i in range(5)]
    m.bias = nn.Parameter(ag.ones(3))
    return before, [called(f, {"weight": w * i}, (data(i),)) for i in range(5)]


@case
def hooks_of_modules(wrap):
    ag.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    f = wrap(m)
    log = each(f, 4)
    handle = m[1].register_forward_hook(lambda module, args, out: out * 5)
    log += each(f, 4)
    handle.remove()
    return log
