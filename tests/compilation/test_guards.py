"""A program runs only while what its traces depended on is as it was; else the call is traced anew."""

import contextlib
import gc
import pickle
import sys
import threading

import numpy as np
import pytest
from compiled_groups import count_of_calls

import autograd_gpu as ag
from autograd_gpu import nn, optim

pytestmark = pytest.mark.cpu
FACTOR = 2.0
TABLE = {"scale": 2.0, "all": [1.0, 2.0]}
W = ag.ones(3)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor, self.layer, self.drop = 2.0, nn.Linear(3, 3), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layer(x)) * self.factor


def same(f, g, x, calls=4):
    """The results of f and g agree, at each of some calls."""
    for _ in range(calls):
        ag.manual_seed(3)
        expected = f(x)
        ag.manual_seed(3)
        assert np.array_equal(g(x).detach().numpy(), expected.detach().numpy())


def check(f, *changes, x=None, reason=None):
    """After each change the compiled function does what f does, compiled again."""
    x = ag.tensor([[1.0, -2.0, 3.0]]) if x is None else x
    g = ag.compile(f)
    same(f, g, x)
    assert g.counts.compiled == 2
    for change in changes:
        before = g.counts.compiled
        change()
        same(f, g, x)
        assert g.counts.compiled >= before + 1
    assert g.counts.eager == 0
    if reason is not None:
        assert any(reason in text for text in g.recompiles), g.recompiles
    return g


def test_global(monkeypatch):
    check(lambda x: x * FACTOR, lambda: monkeypatch.setitem(globals(), "FACTOR", 3.0), reason="FACTOR")


def test_global_tensor(monkeypatch):
    check(lambda x: x * W, lambda: monkeypatch.setitem(globals(), "W", ag.zeros(3)), reason="W has changed")


def test_containers(monkeypatch):
    check(lambda x: x * TABLE["scale"] + TABLE["all"][1], lambda: monkeypatch.setitem(TABLE, "scale", 5.0),
          reason="TABLE")  # fmt: skip
    numbers = [1.0, 2.0]
    check(lambda x: x * numbers[0] + ag.tensor(numbers)[1], lambda: numbers.__setitem__(1, 7.0), reason="numbers")


def test_cell():
    factor = 2.0

    def inner(x):
        return x * factor

    def change():
        nonlocal factor
        factor = 4.0

    check(lambda x: inner(x) + 1, change, reason="factor")


def test_attribute_chain():
    class Options:
        scale = 2.0

    class Box:
        __slots__ = ("options",)

    box = Box()
    box.options = Options()
    check(lambda x: x * box.options.scale, lambda: setattr(box.options, "scale", 3.0),
          lambda: setattr(Options, "scale", 4.0) or delattr(box.options, "scale"),
          lambda: setattr(box, "options", Options()), reason="box.options")  # fmt: skip


def test_attributes_of_modules():
    m = Scale()
    x = ag.tensor([[1.0, -2.0, 3.0]])
    check(m, lambda: setattr(m, "factor", 3.0), m.eval, m.train, lambda: setattr(m.drop, "p", 0.25),
          lambda: setattr(m, "layer", nn.Linear(3, 3)), x=x)  # fmt: skip


def test_memory_of_a_parameter():
    m = nn.Linear(3, 3)
    check(m, lambda: setattr(m.weight, "data", ag.ones(3, 3)), reason="has other memory")


def test_values_of_a_parameter_need_no_other_program():
    m = nn.Linear(3, 3)
    g = ag.compile(m)
    x = ag.ones(1, 3)
    for i in range(6):
        with ag.no_grad():
            m.weight.fill_(i)
        assert np.array_equal(g(x).detach().numpy(), m(x).detach().numpy())
    assert g.counts.compiled == 4


def test_requires_grad_of_a_parameter():
    m = nn.Linear(3, 3)
    check(m, lambda: m.weight.requires_grad_(False))
    w = ag.ones(3)
    f = ag.compile(lambda x: x * w)
    for wanted in (False, True, False):
        w.requires_grad_(wanted)
        assert [f(ag.ones(3)).requires_grad for _ in range(3)] == [wanted] * 3


def test_a_forward_of_its_own():
    m = nn.Sequential(nn.Linear(3, 3))
    check(m, lambda: setattr(m[0], "forward", lambda x: x * 2))


def _expected(text):
    return pytest.warns(UserWarning, match=text)


def test_hooks_of_modules_and_tensors():
    m = nn.Linear(3, 3)
    g = ag.compile(m)
    same(m, g, ag.ones(1, 3))
    m.register_forward_hook(lambda module, args, out: out * 2)
    with pytest.warns(UserWarning, match="Linear has hooks"):
        same(m, g, ag.ones(1, 3))
    m = nn.Linear(3, 3)
    step = ag.compile(lambda x: ag.autograd.grad(m(x).sum(), m.weight)[0])
    for _ in range(3):
        step(ag.ones(1, 3))
    f = ag.compile(lambda x: ag.autograd.grad((x * x).sum(), x)[0])
    for hooked in (False, True):
        for _ in range(3):
            x = ag.ones(2, requires_grad=True)
            if hooked:
                x.register_hook(lambda g: g * 5)
            with _expected("a hook on a tensor") if hooked and not f._warned else contextlib.nullcontext():
                assert f(x).tolist() == [10.0 if hooked else 2.0] * 2
    m.weight.register_hook(lambda g: g * 2)
    with pytest.warns(UserWarning, match="a hook on a tensor"):
        assert (step(ag.ones(1, 3)) == 2).all()


def test_key():
    """Shapes, strides, dtypes, numbers and modes of the call make further programs."""
    f = ag.compile(lambda x, n: (x * n).sum(0))
    samples = [(ag.ones(2, 3), 2), (ag.ones(3, 2), 2), (ag.ones(3, 2).T, 2), (ag.ones(2, 3).double(), 2),
               (ag.ones(2, 3), 3), (ag.ones(2, 3), 2.0), (ag.ones(2, 3, requires_grad=True), 2)]  # fmt: skip
    for x, n in samples:
        for _ in range(3):
            result = f(x, n)
            assert np.array_equal(result.detach().numpy(), (x * n).sum(0).detach().numpy())
            assert result.requires_grad == x.requires_grad
    assert f.counts.compiled == len(samples)
    with ag.no_grad():
        for _ in range(3):
            assert not f(samples[-1][0], 2).requires_grad


def test_negative_zero():
    f = ag.compile(lambda x, n: x * n)
    for n in (0.0, -0.0):
        for _ in range(3):
            assert bool(f(ag.ones(1), n).signbit()) == (str(n) == "-0.0")


def test_the_same_tensor_twice():
    """Without the key the second product would be taken for the first one."""
    f = ag.compile(lambda x, y: (y * 2).sin() + x.add_(1) + y * 2)
    two = float(ag.sin(ag.tensor(2.0)))
    for _ in range(3):
        assert f(ag.ones(2), ag.ones(2))[0].item() == pytest.approx(two + 4)
    for _ in range(3):
        x = ag.ones(2)
        assert f(x, x)[0].item() == pytest.approx(two + 6)
    for _ in range(3):
        x = ag.ones(3)
        assert f(x[:2], x[1:]).tolist() == pytest.approx([two + 6, two + 4])


def test_a_parameter_as_argument():
    m = nn.Linear(3, 3)
    f = ag.compile(lambda w, x: x @ m.weight.mT + w)
    x, other = ag.ones(3, 3), nn.Parameter(ag.zeros(3, 3))
    for w in (m.weight, other, m.weight):
        for _ in range(3):
            assert np.array_equal(f(w, x).detach().numpy(), (x @ m.weight.mT + w).detach().numpy())


def test_grad_at_entry():
    w = ag.ones(3, requires_grad=True)

    def f(x):
        (x * w).sum().backward()
        return w.grad * 1

    g = ag.compile(f)
    for _ in range(4):
        assert g(ag.ones(3)).tolist()[0] == w.grad.tolist()[0]
    w.grad = None
    assert g(ag.ones(3)).tolist() == [1.0] * 3
    held = w.grad
    assert g(ag.ones(3)).tolist() == [2.0] * 3
    assert held is w.grad


def test_whether_there_is_a_grad():
    w = ag.ones(3, requires_grad=True)
    f = ag.compile(lambda x: x * 2 if w.grad is None else x * 3)
    for grad in (None, ag.ones(3), None):
        w.grad = grad
        assert [f(ag.ones(1)).item() for _ in range(4)] == [2.0 if grad is None else 3.0] * 4


def test_containers_in_containers():
    table = {"rows": [[1.0], [2.0]]}
    check(lambda x: x * ag.tensor(table["rows"][0]), lambda: table["rows"][0].__setitem__(0, 4.0), reason="table")


def test_options_of_an_optimizer_stay_live():
    def start():
        ag.manual_seed(0)
        m = nn.Linear(3, 1)
        o = optim.Adam(m.parameters(), lr=0.1)
        s = optim.lr_scheduler.ExponentialLR(o, 0.5)

        def step(x):
            o.zero_grad()
            m(x).sum().backward()
            o.step()
            return m.weight.detach().clone()

        return step, s, o

    (f, s, _), (g, t, o) = start(), start()
    g = ag.compile(g)
    for i in range(12):
        x = ag.ones(2, 3) * i
        assert np.array_equal(f(x).numpy(), g(x).numpy())
        s.step()
        t.step()
    assert g.counts.compiled == 9
    assert o._ag_steps_taken == 12
    o.load_state_dict(o.state_dict())
    g(ag.ones(2, 3))
    assert o.state[o.param_groups[0]["params"][0]]["step"].item() == 13


def test_an_import_in_the_first_call(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("STATE = []\ndef f(x):\n    STATE.append(1)\n    return x\nf(1)\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import imported_late

        return x * len(imported_late.STATE)

    g = ag.compile(f, fullgraph=True)
    assert [g(ag.ones(1)).item() for _ in range(4)] == [1.0] * 4
    assert g.counts.compiled >= 1


def test_eight_programs():
    box = {"n": 0}

    def f(x):
        return x * box["n"]

    g = ag.compile(f)

    def calls():
        for n in range(10):
            box["n"] = n
            assert [g(ag.ones(1)).item() for _ in range(3)] == [n] * 3

    with pytest.warns(UserWarning, match="has 8 programs"):
        calls()
    assert g.counts.eager > 0


def test_programs_belong_to_a_thread():
    f = ag.compile(lambda x: x * 2)
    for _ in range(3):
        f(ag.ones(2))
    thread = threading.Thread(target=lambda: [f(ag.ones(2)) for _ in range(3)])
    thread.start()
    thread.join()
    assert (f.counts.traced, f.counts.compiled) == (4, 2)


def test_reset_copies_and_pickles():
    f = ag.compile(Scale())
    for _ in range(3):
        f(ag.ones(1, 3))
    f.reset()
    assert f.counts.traced == 0
    assert f.factor == 2.0
    again = pickle.loads(pickle.dumps(f))
    assert again(ag.ones(1, 3)).shape == (1, 3)


def test_calls_leave_nothing_behind():
    w = ag.ones(3, requires_grad=True)
    step = ag.compile(lambda x: ag.autograd.grad((x * w).sin().sum(), w)[0])
    outside = ag.compile(lambda x: (x * w).sin().sum())

    def calls(count):
        for _ in range(count):
            step(ag.ones(3))
            outside(ag.ones(3)).backward()

    calls(100)  # native code is there from then on
    gc.collect()
    before = len(gc.get_objects())
    calls(5000)
    gc.collect()
    assert len(gc.get_objects()) - before < 20


def test_methods():
    class Model:
        scale = 2.0

        @ag.compile
        def run(self, x):
            return x * self.scale

    a, b = Model(), Model()
    b.scale = 3.0
    for _ in range(4):
        assert (a.run(ag.ones(1)).item(), b.run(ag.ones(1)).item()) == (2.0, 3.0)
    a.scale = 5.0
    assert a.run(ag.ones(1)).item() == 5.0


def test_checks_of_a_distribution_are_repeated():
    def f(scale):
        return ag.distributions.Normal(0.0, scale).log_prob(ag.ones(2))

    g = ag.compile(f, fullgraph=True)
    for _ in range(3):
        g(ag.ones(2))
    assert g.counts.compiled == 1
    texts = []
    for h in (f, g):
        with pytest.raises(ValueError, match="Expected parameter scale") as error:
            h(ag.tensor([1.0, -2.0]))
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def test_a_failing_call_leaves_what_eager_leaves():
    w = ag.ones(3, requires_grad=True)

    def f(x, i):
        w.grad = None
        (x * w).sum().backward()
        return x.gather(0, i)

    g = ag.compile(f)
    for _ in range(4):
        g(ag.ones(3), ag.tensor([1]))
    w.grad = None
    with pytest.raises(IndexError, match=r"gather\(\): index -1 is out of bounds") as error:
        g(ag.ones(3) * 5, ag.tensor([-1]))
    assert w.grad.tolist() == [5.0] * 3
    with pytest.raises(IndexError) as eager:
        f(ag.ones(3) * 5, ag.tensor([-1]))
    assert str(error.value) == str(eager.value)
    for h in (f, g):
        with pytest.raises((IndexError, RuntimeError)) as error:
            h(ag.ones(3) * 5, ag.tensor([7]))
        seen = str(error.value)
    assert "7" in seen


class Scaled:
    """Holds a tensor, and reads an attribute of its class."""

    factor = 2.0

    def __init__(self, x):
        self.x = x

    def value(self):
        return self.x * self.factor


def test_objects_made_inside_are_no_state_but_what_they_read_is(monkeypatch):
    compiled = ag.compile(lambda x: Scaled(x).value(), fullgraph=True)
    assert [compiled(ag.ones(2)).tolist() for _ in range(3)] == [[2, 2]] * 3
    assert compiled.counts.compiled == 1
    monkeypatch.setattr(Scaled, "factor", 5.0)
    assert compiled(ag.ones(2)).tolist() == [5, 5]


def test_objects_made_outside_are_state():
    made = Scaled(1)

    def counted(x):
        made.x += 1
        return x * made.x

    with pytest.raises(ag.compile.CompileError, match="changes"):
        ag.compile(counted, fullgraph=True)(ag.ones(2))


def test_two_leaves_of_one_array_have_a_gradient_each():
    v = ag.ones(3, requires_grad=True)
    w = v.detach().requires_grad_()
    compiled = ag.compile(lambda x: (x * v).sum() + (x * w * 2).sum())
    with pytest.warns(UserWarning, match="two leaves show one array"):
        compiled(ag.ones(3))
    for _ in range(3):
        v.grad = w.grad = None
        compiled(ag.ones(3)).backward()
    assert (v.grad.tolist(), w.grad.tolist()) == ([1, 1, 1], [2, 2, 2])


def test_modules_that_run_fused_are_guarded_though_they_are_not_called():
    model = nn.Sequential(nn.Linear(3, 3), nn.LeakyReLU(), nn.Linear(3, 2))

    def replace():
        model[0].weight = nn.Parameter(ag.full((3, 3), 2.0))

    def forward_of_its_own():
        model[1].forward = lambda x: x * 7

    slope = lambda: setattr(model[1], "negative_slope", 0.5)  # noqa: E731
    check(lambda x: model(x), replace, slope, forward_of_its_own, reason="Linear.weight")


def test_a_hook_of_all_modules_or_of_one_that_runs_fused():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x, zero = ag.ones(1, 3), lambda module, args, out: out * 0
    compiled = ag.compile(lambda x: model(x))
    same(model, compiled, x)
    for register in (model[0].register_forward_hook, nn.modules.module.register_module_forward_hook):
        handle = register(zero)
        with pytest.warns(UserWarning, match="hook") if not compiled._warned else contextlib.nullcontext():
            same(model, compiled, x)
        handle.remove()
        compiled.reset()
        same(model, compiled, x)


@pytest.mark.parametrize("change", [
    lambda m: setattr(m, "scale", 3.0), lambda m: m.__dict__.update(scale=3.0), lambda m: delattr(m, "scale"),
    lambda m: m.__dict__.pop("scale"), lambda m: m.__setstate__({"scale": 3.0}), lambda m: m.double(),
    lambda m: m.register_parameter("weight", None), lambda m: m._parameters.update(weight=nn.Parameter(ag.zeros(3))),
    lambda m: m.eval(), lambda m: m.scales.append(2.0),
])  # fmt: skip
def test_whatever_changes_a_module_is_noticed(change):
    class Layer(nn.Module):
        scale = 5.0

        def __init__(self):
            super().__init__()
            self.scale, self.scales, self.weight = 2.0, [1.0], nn.Parameter(ag.ones(3))

        def forward(self, x):
            y = x * self.scale * self.scales[-1] * (2 if self.training else 1)
            return y if self.weight is None else y.to(self.weight.dtype) * self.weight

    layer = Layer()
    check(lambda x: layer(x), lambda: change(layer))


def test_a_variable_that_is_deleted():
    def scope():
        factor = 2.0

        def scaled(x):
            return x * factor

        def forget():
            nonlocal factor
            del factor

        return scaled, forget

    scaled, forget = scope()
    compiled = ag.compile(scaled)
    same(scaled, compiled, ag.ones(2))
    forget()
    with pytest.raises(NameError):
        compiled(ag.ones(2))


def test_a_record_is_not_told_of_the_ops_code():
    heard = []

    class Note(ag.compilation.watching.Watch):
        def _begins(self, frame):
            heard.append(frame.f_code.co_name)
            super()._begins(frame)

    def refuse(*words):
        raise AssertionError(words)

    def library():
        return 1

    watch = Note(refuse)
    with watch:
        with watch.paused(), watch.paused():
            assert sys.getprofile() is None
            library()
        assert sys.getprofile() is watch._listener
    assert "library" not in heard

    told = []
    sys.setprofile(lambda frame, event, argument: told.append(frame.f_code.co_name))  # a user's profiler hears of all
    try:
        with watch, watch.paused():
            library()
    finally:
        sys.setprofile(None)
    assert "library" in told


def test_what_a_cached_call_costs():
    w, x, row = ag.ones(3, requires_grad=True), ag.ones(3), ag.ones(1, 3)
    step = ag.compile(lambda x: (x + 1) * x)
    model = ag.compile(nn.Sequential(*[nn.Linear(3, 3) for _ in range(20)]).eval().requires_grad_(False))
    graph = ag.compile(lambda x: x * w)
    for f in (step, model, graph):
        [f(row if f is model else x) for _ in range(80)]  # after some 64 a group is native code
    count, names = count_of_calls(step, x)
    assert count <= 12, names
    count, names = count_of_calls(model._ag_compiled, row)
    assert count <= 12, names  # whatever the number of modules
    count, names = count_of_calls(graph, x)
    assert count <= 44, names


def test_other_memory_of_a_tensor_of_which_an_alias_is_used():
    leaf, several = ag.ones(3, requires_grad=True), [ag.ones(3, requires_grad=True)]
    check(lambda x: x * leaf.detach() + several[0].detach(), lambda: setattr(leaf, "data", ag.zeros(3)),
          lambda: setattr(several[0], "data", ag.zeros(3)), reason="other memory")


def test_ten_thousand_calls_leave_nothing_behind():
    w = ag.ones(3, requires_grad=True)
    compiled, x = ag.compile(lambda x: ((x + 1) * w).sum()), ag.ones(3)
    for _ in range(100):
        compiled(x).backward()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10_000):
        compiled(x)
    gc.collect()
    assert len(gc.get_objects()) - before < 50
    (kind,) = compiled._kinds.values()
    assert len(kind.programs[0][1].program._scope.get("frames", [None])) == 1


def test_a_parameter_of_a_layer_that_is_compiled_in_place_is_replaced():
    layer, x = nn.Linear(2, 2), ag.ones(1, 2)
    layer.compile()
    for _ in range(4):
        layer(x)
    layer.weight, layer.bias = nn.Parameter(ag.zeros(2, 2)), nn.Parameter(ag.ones(2))
    assert layer(x).tolist() == [[1.0, 1.0]]
    assert layer.forward.recompiles == ["Linear.weight has changed"]
