"""use_deterministic_algorithms: the switch as in PyTorch, and the operations on CUDA that it refuses."""

import pytest

import autograd_gpu as ag

STATES = (
    lambda m: m.use_deterministic_algorithms(True),
    lambda m: m.use_deterministic_algorithms(True, warn_only=True),
    lambda m: m.use_deterministic_algorithms(False, warn_only=True),
    lambda m: m.set_deterministic_debug_mode("warn"),
    lambda m: m.set_deterministic_debug_mode(2),
    lambda m: m.set_deterministic_debug_mode("default"),
)
WRONG = (
    lambda m: m.use_deterministic_algorithms(1),
    lambda m: m.use_deterministic_algorithms(True, warn_only=None),
    lambda m: m.set_deterministic_debug_mode("foo"),
    lambda m: m.set_deterministic_debug_mode(5),
    lambda m: m.set_deterministic_debug_mode(None),
)
ADDING = {  # operation -> a call, and the name in the message
    "index_add": (lambda x, i: x.index_add(0, i, x), "index_add"),
    "index_put": (lambda x, i: x.index_put((i,), x, accumulate=True), "index_put"),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x), "scatter_add"),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(0, i, x, "mean"), "scatter_reduce"),
    "bincount": (lambda x, i: i.bincount(x), "bincount with weights"),
    "histogram": (lambda x, i: ag.histogram(x, 3, weight=x), "histogram with weights"),
    "indexing": (lambda x, i: ag.autograd.grad(x[i].sum(), x), "gradients of indexing"),
    "embedding": (lambda x, i: ag.autograd.grad(ag.embedding(i, x.reshape(3, 1)).sum(), x), "embedding"),
    "gather": (lambda x, i: ag.autograd.grad(x.gather(0, i).sum(), x), "the gradient of gather"),
    "as_strided": (lambda x, i: ag.autograd.grad(x.as_strided((2, 2), (1, 1)).sum(), x), "as_strided"),
}


@pytest.fixture(autouse=True)
def _restored():
    yield
    ag.use_deterministic_algorithms(False)


def inputs(device):
    return ag.ones(3, device=device, requires_grad=True), ag.tensor([0, 1, 1], device=device)


@pytest.mark.cpu
@pytest.mark.parametrize("change", STATES)
def test_the_switch_is_pytorchs(change):
    torch = pytest.importorskip("torch")
    try:
        for m in (torch, ag):
            change(m)
        actual, theirs = ((m.are_deterministic_algorithms_enabled(), m.is_deterministic_algorithms_warn_only_enabled(),
                           m.get_deterministic_debug_mode()) for m in (ag, torch))
        assert actual[0] == theirs[0]
        assert actual[2] == theirs[2]
        assert actual[1] == (theirs[0] and theirs[1])  # PyTorch remembers warn_only of a switch that is off
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.cpu
@pytest.mark.parametrize("change", WRONG)
def test_errors_are_pytorchs(change):
    torch = pytest.importorskip("torch")
    with pytest.raises((TypeError, RuntimeError)) as theirs:
        change(torch)
    with pytest.raises(theirs.type):
        change(ag)
    assert not ag.are_deterministic_algorithms_enabled()


@pytest.mark.cpu
@pytest.mark.parametrize("name", ADDING)
def test_nothing_is_refused_on_the_cpu(name):
    ag.use_deterministic_algorithms(True)
    ADDING[name][0](*inputs("cpu"))


@pytest.mark.cuda
@pytest.mark.parametrize("name", ADDING)
def test_sums_by_atomics_are_refused_on_cuda(name):
    call, named = ADDING[name]
    call(*inputs("cuda"))
    ag.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match=rf"{named}.*does not have a deterministic implementation, but you set "
                                           r"'ag.use_deterministic_algorithms\(True\)'\. You can turn off"):
        call(*inputs("cuda"))
    ag.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=rf"{named}.*warn_only=True"):
        call(*inputs("cuda"))


@pytest.mark.cuda
def test_exact_sums_are_not_refused():
    """Of integers, whose order does not matter, and counts."""
    ag.use_deterministic_algorithms(True)
    x, i = ag.ones(3, device="cuda", dtype=ag.int64), ag.tensor([0, 1, 1], device="cuda")
    assert x.index_add(0, i, x).tolist() == [2, 3, 1]
    assert i.bincount().tolist() == [1, 2]
    assert ag.histc(x.float(), 2).sum().item() == 3
