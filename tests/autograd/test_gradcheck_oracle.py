"""gradcheck and gradgradcheck against PyTorch's: verdicts, errors, warnings."""

import inspect
import re
import warnings

import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


def leaf(m, *values, dtype=None):
    return m.tensor([float(v) for v in values], dtype=dtype or m.float64, requires_grad=True)


def function(m, forward, backward, materialize=True):
    class F(m.autograd.Function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(materialize)

    F.forward, F.backward = staticmethod(forward), staticmethod(backward)
    return F.apply


def undefined(m, backward):
    return function(m, lambda x: x * 2, backward, materialize=False)


def refuses_none(ctx, g):
    if g is None:
        raise RuntimeError("a gradient is missing")
    return g * 2


def check(function, *values, of="gradcheck", **options):
    """The program that checks `function(m)` at these vectors."""
    return lambda m: getattr(m.autograd, of)(function(m), tuple(leaf(m, *v) for v in values or [(1, 2)]), **options)


def float32(m, function, of="gradcheck", **options):
    return getattr(m.autograd, of)(function, leaf(m, 1, 2, dtype=m.float32), eps=1e-2, atol=1e-2, **options)


def of_parameters(m, of, **options):
    net, data = m.nn.Linear(2, 1, dtype=m.float64), m.tensor([[1.0, 2.0], [0.5, -3.0]], dtype=m.float64)
    verdict = getattr(m.autograd, of)(lambda *_: net(data) ** 2, tuple(net.parameters()), **options)
    return verdict, [p._version for p in net.parameters()]


def sine(m):
    return m.sin


def wrong(m):
    return function(m, lambda x: x * 2, lambda ctx, g: g * 3)


def doubles_none(m):
    return undefined(m, lambda ctx, g: g * 2)


def fills_in(m, value):
    return undefined(m, lambda ctx, g: m.full((2,), value, dtype=m.float64) if g is None else g * 2)


def doubles_the_first(m):
    return function(m, lambda x, y: (x * 2, y * 3), lambda ctx, g, h: (g * 2, None if h is None else h * 3), False)


def takes_none(m):
    return function(m, lambda x, y: (x * 2, y), lambda ctx, g, h: (None if g is None else g * 2, h), False)


def adds(m):
    return function(m, lambda x: x * 2, lambda ctx, g: g * 2 + 1e-9)


def jumps(m):
    return lambda x: x[x > 1 - 1e-9] * 2


def narrows(m):
    return lambda x: x * 2 if x.tolist()[0] < 1 + 1e-9 else (x * 2).float()


def forward(m, jvp, backward=lambda ctx, g: g * 2, compute=lambda x: x * 2, **body):
    """A Function of one tensor with these rules."""

    class F(m.autograd.Function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)

    F.forward, F.backward, F.jvp = staticmethod(compute), staticmethod(backward), staticmethod(jvp)
    for name, value in body.items():
        setattr(F, name, value)
    return F.apply


def pushes(jvp, **options):
    return check(lambda m: forward(m, jvp), check_forward_ad=True, **options)


def takes_ctx(m, seen=None):
    """A Function of two tensors whose forward takes ctx."""

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_forward(x, y)
            return x * y, y.clone()

        @staticmethod
        def jvp(ctx, s, t):
            if seen is not None:
                seen.append(s.shape)
            x, y = ctx.saved_tensors
            return s * y + x * t, t.clone()

    return F.apply


def counted(m, requires_grad, **options):
    seen = []
    y = m.tensor([2.0], dtype=m.float64, requires_grad=requires_grad)
    verdict = m.autograd.gradcheck(takes_ctx(m, seen), (leaf(m, 1), y), check_forward_ad=True, check_backward_ad=False,
                                   **options)
    return verdict, [tuple(shape) for shape in seen]


def two(m):
    return lambda x, y: (x * y, (x * x).sum(), y.exp().detach())


PROGRAMS = {
    "backward that does not take None": check(doubles_none),
    "as False": check(doubles_none, raise_exception=False),
    "not asked for": check(doubles_none, check_undefined_grad=False),
    "backward that refuses None": check(lambda m: undefined(m, refuses_none)),
    "as False, RuntimeError": check(lambda m: undefined(m, refuses_none), raise_exception=False),
    "behind an operation": check(lambda m: lambda x: undefined(m, refuses_none)(x).sin()),
    "above the inputs": lambda m: m.autograd.gradcheck(m.sin, undefined(m, refuses_none)(leaf(m, 1, 2))),
    "numbers for None": check(lambda m: fills_in(m, 1.0)),
    "zeros for None": check(lambda m: fills_in(m, 0.0)),
    "None for None": check(lambda m: undefined(m, lambda ctx, g: g if g is None else g * 2)),
    "None for one of two": check(doubles_the_first, (1, 2), (3, 4)),
    "None for each of two": check(takes_none, (1, 2), (3, 4)),
    "numbers for zeros": check(adds),
    "numbers for zeros, fast": check(adds, fast_mode=True),
    "numbers for zeros, masked": check(adds, masked=True),
    "parameters": lambda m: of_parameters(m, "gradcheck"),
    "parameters, fast": lambda m: of_parameters(m, "gradcheck", fast_mode=True),
    "parameters, second": lambda m: of_parameters(m, "gradgradcheck"),
    "float32": lambda m: float32(m, m.sin),
    "float32, second": lambda m: float32(m, m.sin, of="gradgradcheck"),
    "float32, wrong": lambda m: float32(m, wrong(m)),
    "float32, wrong, as False": lambda m: float32(m, wrong(m), raise_exception=False),
    "a constant": check(lambda m: lambda x: m.ones(2, dtype=m.float64)),
    "a constant, fast": check(lambda m: lambda x: m.ones(2, dtype=m.float64), fast_mode=True),
    "detached": check(lambda m: lambda x: x.detach()),
    "detached, as False": check(lambda m: lambda x: x.detach(), raise_exception=False),
    "detached, fast": check(lambda m: lambda x: x.detach(), fast_mode=True),
    "nothing returned": check(lambda m: lambda x: ()),
    "integers returned": check(lambda m: lambda x: (x > 0).long()),
    "one detached": check(lambda m: lambda x: (x.detach() * 3, x * 2)),
    "one detached, fast": check(lambda m: lambda x: (x * 2, x.detach()), fast_mode=True),
    "lists": lambda m: m.autograd.gradcheck(lambda x: [x * 2, x.exp()], [leaf(m, 1, 2)]),
    "another shape": check(jumps),
    "another shape, as False": check(jumps, raise_exception=False),
    "another shape, fast": check(jumps, fast_mode=True),
    "another dtype": check(narrows),
    "stretched": lambda m: m.autograd.gradcheck(m.sin, leaf(m, 1).expand(3)),
    "stretched to one": lambda m: m.autograd.gradcheck(m.sin, leaf(m, 1).expand(1, 1)),
    "a stretched constant": lambda m: m.autograd.gradcheck(m.mul, (leaf(m, 1, 2), leaf(m, 3).detach().expand(2))),
    "no input requires grad": lambda m: m.autograd.gradcheck(m.sin, m.ones(2), raise_exception=False),
    "no elements": lambda m: m.autograd.gradcheck(m.sin, m.ones(0, 3, dtype=m.float64, requires_grad=True)),
    "no elements, fast": lambda m: m.autograd.gradcheck(m.sum, m.ones(0, dtype=m.float64, requires_grad=True),
                                                        fast_mode=True),
    "no dimensions": lambda m: m.autograd.gradcheck(m.sin, m.tensor(2.0, dtype=m.float64, requires_grad=True)),
    "options": check(sine, check_grad_dtypes=True, check_batched_grad=True, check_backward_ad=True, masked=True),
    "nothing asked": check(sine, check_backward_ad=False),
    "second, options": check(sine, of="gradgradcheck", check_undefined_grad=False, check_grad_dtypes=True, masked=True,
                             check_batched_grad=True, check_fwd_over_rev=False, check_rev_over_rev=True),
    "forward": check(sine, check_forward_ad=True),
    "forward, fast": check(sine, check_forward_ad=True, fast_mode=True),
    "forward only": check(sine, check_forward_ad=True, check_backward_ad=False),
    "forward, batched": check(sine, check_forward_ad=True, check_batched_forward_grad=True),
    "forward, several": check(two, (1, 2), (3, 4), check_forward_ad=True, check_batched_forward_grad=True,
                              check_batched_grad=True),
    "forward, several, fast": check(lambda m: lambda x, y: two(m)(x, y)[:2], (1, 2), (3, 4), check_forward_ad=True,
                                    fast_mode=True),
    "forward, wrong": pushes(lambda ctx, t: t * 3),
    "forward, wrong, as False": pushes(lambda ctx, t: t * 3, raise_exception=False),
    "forward, wrong, fast": pushes(lambda ctx, t: t * 3, fast_mode=True),
    "forward, wrong, not asked": check(lambda m: forward(m, lambda ctx, t: t * 3)),
    "backward wrong, forward right": check(lambda m: forward(m, lambda ctx, t: t * 2, lambda ctx, g: g * 3),
                                           check_forward_ad=True, check_backward_ad=False),
    "forward, batched without a rule": pushes(lambda ctx, t: t * 2, check_batched_forward_grad=True),
    "forward, batched without a rule, as False": pushes(lambda ctx, t: t * 2, check_batched_forward_grad=True,
                                                        raise_exception=False),
    "forward, batched, forward takes ctx": check(takes_ctx, (1, 2), (3, 4), check_forward_ad=True,
                                                 check_backward_ad=False, check_batched_forward_grad=True),
    "forward, runs of jvp": lambda m: counted(m, True, check_undefined_grad=False),
    "forward, runs of jvp, undefined": lambda m: counted(m, True),
    "forward, runs of jvp, batched": lambda m: counted(m, True, check_batched_forward_grad=True),
    "forward, runs of jvp, one input": lambda m: counted(m, False, check_batched_forward_grad=True),
    "forward, nothing differentiable": check(lambda m: lambda x: x.detach() * 2, check_forward_ad=True),
    "forward, constant": check(lambda m: lambda x: m.ones(2, dtype=m.float64), check_forward_ad=True),
    "batched forward without forward": check(sine, check_batched_forward_grad=True),
    "batched without backward": check(sine, check_batched_grad=True, check_forward_ad=True, check_backward_ad=False),
    "second, forward": check(sine, of="gradgradcheck", check_fwd_over_rev=True),
    "second, forward, fast": check(sine, of="gradgradcheck", check_fwd_over_rev=True, fast_mode=True),
    "second, forward only": check(sine, of="gradgradcheck", check_fwd_over_rev=True, check_rev_over_rev=False,
                                  check_undefined_grad=False),
    "second, forward only, undefined": check(sine, of="gradgradcheck", check_fwd_over_rev=True,
                                             check_rev_over_rev=False),
    "second, forward only, batched": check(sine, of="gradgradcheck", check_fwd_over_rev=True, check_batched_grad=True,
                                           check_rev_over_rev=False, check_undefined_grad=False),
    "second, batched": check(two, (1, 2), (3, 4), of="gradgradcheck", check_batched_grad=True,
                             check_fwd_over_rev=True),
    "second, nothing asked": check(sine, of="gradgradcheck", check_rev_over_rev=False),
}  # fmt: skip


def outcome(program, m):
    """The verdict or the error's type and first words, and whether there were warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = program(m)
        except Exception as error:
            result = type(error).__name__, re.findall(r"\w+", str(error))[:5]
    return result, sum("double precision" in str(w.message) for w in caught)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_pytorch(name):
    assert outcome(PROGRAMS[name], ag) == outcome(PROGRAMS[name], torch)


@pytest.mark.parametrize("of", ["gradcheck", "gradgradcheck"])
def test_options_are_pytorchs(of):
    ours, theirs = (inspect.signature(getattr(m.autograd, of)).parameters for m in (ag, torch))
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]
