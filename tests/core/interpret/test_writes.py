"""In-place operations inside of transforms: what they reach, what is refused. Results: tests/func/test_writes.py."""

import pytest

import autograd_gpu as ag
from autograd_gpu import func
from autograd_gpu.core.interpret.batched import Batching, batched
from autograd_gpu.core.interpret.duals import Forward, attach, tangent_of
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.writes import concerns_level

pytestmark = pytest.mark.cpu


def test_which_writes_a_level_sees():
    plain = ag.ones(2)
    with entered(Batching(2)) as level:
        x = batched(level, ag.ones(2, 2))
        assert not concerns_level(plain, (plain, 2.0, None))
        assert concerns_level(x, ())
        assert concerns_level(plain, ([1, x],))
    with entered(Forward()) as level:
        dual = ag.ones(2)
        attach(dual, level, ag.ones(2))
        assert concerns_level(dual, ())
        assert concerns_level(plain, (dual,))
        assert not concerns_level(plain, (plain,))


def test_the_memory_below_is_written():
    """As in PyTorch: an argument that is written to inside shows it outside."""
    x = ag.zeros(2, 3)
    func.vmap(lambda row: row.add_(ag.arange(3.0)))(x)
    assert x.tolist() == [[0.0, 1.0, 2.0]] * 2
    func.jvp(lambda x: x.mul_(2.0), (x,), (ag.ones(2, 3),))
    assert x.tolist() == [[0.0, 2.0, 4.0]] * 2
    assert x._version == 2


def test_a_tangent_is_written_in_its_own_memory():
    with entered(Forward()) as level:
        x = ag.ones(2, 2)
        attach(x, level, ag.ones(2, 2))
        row = x[0]
        row.mul_(3.0)
        assert tangent_of(x, level).tolist() == [[3.0, 3.0], [1.0, 1.0]]
        x.zero_()
        assert tangent_of(row, level).tolist() == [0.0, 0.0]


def test_an_operand_that_is_the_tensor_itself():
    result = func.vmap(func.grad(lambda x: (x * 1.0).mul_(2.0).sum()))(ag.ones(2, 3))
    assert result.tolist() == [[2.0] * 3] * 2

    def square(x):
        y = x * 1.0
        return y.mul_(y).sum()

    assert func.vmap(func.grad(square))(ag.ones(2, 3)).tolist() == [[2.0] * 3] * 2


def test_refusals():
    plain, x = ag.zeros(3), ag.ones(2, 3)
    words = r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible because there exists a Tensor `other`"
    for write in (plain.add_, plain.copy_, lambda row: plain.__setitem__(..., row),
                  lambda row: plain.__setitem__(0, row[0]), lambda row: ag.exp(row, out=plain)):
        with pytest.raises(RuntimeError, match=words):
            func.vmap(write)(x)
    assert plain.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match=r"in-place operation \(add_\) that would mutate a captured Tensor"):
        func.vmap(func.grad(lambda row: plain.add_(row).sum()))(x)
    with pytest.raises(RuntimeError, match=r"output with shape .* doesn't match the broadcast shape"):
        func.vmap(lambda row: row[:1].add_(row))(x)
    with pytest.raises(RuntimeError, match=r"`out` of shape .* cannot be resized"):
        func.vmap(lambda row: ag.exp(row, out=row[:2]))(x)


def test_out_of_a_batch():
    def function(row):
        out = ag.empty_like(row)
        return out

    with pytest.raises(RuntimeError, match="vmap: inplace"):
        func.vmap(lambda row: ag.exp(row, out=function(ag.ones(3))))(ag.ones(2, 3))
    result = func.vmap(lambda row: ag.exp(row, out=row.clone()))(ag.zeros(2, 3))
    assert result.tolist() == [[1.0] * 3] * 2
