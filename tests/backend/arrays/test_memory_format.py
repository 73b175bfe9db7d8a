"""Memory formats: what the layout of a result follows, and what is refused."""

import pickle

import pytest

import autograd_gpu as ag

FORMATS = {
    "clone": lambda m, x, f: x.clone(memory_format=f), "ag.clone": lambda m, x, f: m.clone(x, memory_format=f),
    "to": lambda m, x, f: x.to(m.float64, memory_format=f),
    "to the same": lambda m, x, f: x.to(m.float32, memory_format=f),
    "to a copy": lambda m, x, f: x.to(m.float32, copy=True, memory_format=f),
    "zeros_like": lambda m, x, f: m.zeros_like(x, memory_format=f),
    "ones_like": lambda m, x, f: m.ones_like(x, memory_format=f),
    "empty_like": lambda m, x, f: m.empty_like(x, memory_format=f),
    "full_like": lambda m, x, f: m.full_like(x, 2.0, memory_format=f),
    "rand_like": lambda m, x, f: m.rand_like(x, memory_format=f),
    "randn_like": lambda m, x, f: m.randn_like(x, memory_format=f),
    "randint_like": lambda m, x, f: m.randint_like(x, 3, memory_format=f),
    "double": lambda m, x, f: x.double(memory_format=f), "type": lambda m, x, f: x.type(m.float64, memory_format=f),
}  # fmt: skip
LAYOUTS = {"rows": lambda x: x, "columns": lambda x: x.permute(2, 0, 1), "steps": lambda x: x[::2, :, ::2]}
STRETCHED = {"middle": lambda x: x[:, :1].expand(4, 3, 4), "first": lambda x: x[0].expand(2, 3, 4)}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
@pytest.mark.parametrize("call", FORMATS.values(), ids=list(FORMATS))
def test_memory_formats(call, layout):
    torch = pytest.importorskip("torch")
    for name in ("contiguous_format", "preserve_format"):
        ours = call(ag, layout(ag.ones(4, 3, 4)), getattr(ag, name))
        theirs = call(torch, layout(torch.ones(4, 3, 4)), getattr(torch, name))
        assert (ours.shape, ours.stride()) == (tuple(theirs.shape), theirs.stride()), name


@pytest.mark.parametrize("layout", STRETCHED.values(), ids=list(STRETCHED))
@pytest.mark.parametrize("call", [call for name, call in FORMATS.items() if "_like" in name])
def test_new_tensors_like_a_stretched_one(call, layout):
    test_memory_formats(call, layout)


def test_contiguous_takes_one_format():
    x = ag.ones(3, 2).t()
    assert x.contiguous(memory_format=ag.contiguous_format).stride() == ag.contiguous(x).stride() == (3, 1)
    with pytest.raises(RuntimeError, match="preserve memory format is unsupported by the contiguous operator"):
        x.contiguous(memory_format=ag.preserve_format)
    for y in (x, ag.ones(1, 2, 3, 4)):
        with pytest.raises(NotImplementedError, match="channels_last is not supported"):
            y.contiguous(memory_format=ag.channels_last)


@pytest.mark.parametrize("call", FORMATS.values(), ids=list(FORMATS))
def test_channels_last_is_refused(call):
    x = ag.ones(1, 2, 3, 4)
    with pytest.raises(NotImplementedError, match=r"memory_format=channels_last is not supported.*permute"):
        call(ag, x, ag.channels_last)
    with pytest.raises(TypeError, match="argument 'memory_format' must be memory_format, not int"):
        call(ag, x, 3)


def test_a_clone_in_another_format_is_recorded():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x.t().clone(memory_format=ag.contiguous_format)
    (y * ag.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_is_contiguous_answers_for_channels_last():
    x = ag.ones(2, 3, 4, 5)
    last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert [t.is_contiguous(memory_format=ag.channels_last) for t in (x, last, x[0])] == [False, True, False]
    assert [t.is_contiguous(memory_format=ag.contiguous_format) for t in (x, last)] == [True, False]


def test_modules_take_formats():
    net = ag.nn.Linear(2, 3)
    assert net.to(memory_format=ag.preserve_format).to(ag.float64, memory_format=ag.contiguous_format) is net
    assert net.weight.dtype == ag.float64
    with pytest.raises(NotImplementedError, match="channels_last is not supported"):
        net.to(memory_format=ag.channels_last)
    assert ag.empty(2, memory_format=ag.contiguous_format).shape == (2,)


def test_numbers_drawn_in_another_order_are_the_same_numbers():
    """The order in memory says where a number lies, not which one it is."""
    drawn = []
    for x in (ag.ones(3, 2), ag.ones(2, 3).t()):
        ag.manual_seed(0)
        drawn.append(ag.rand_like(x).tolist())
    assert drawn[0] == drawn[1]


def test_formats_pickle_by_name():
    for name in ("contiguous_format", "preserve_format", "channels_last"):
        assert pickle.loads(pickle.dumps(getattr(ag, name))) is getattr(ag, name)
        assert isinstance(getattr(ag, name), ag.memory_format)
