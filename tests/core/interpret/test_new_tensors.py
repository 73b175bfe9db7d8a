"""Tensors made inside of transforms: the levels that they belong to. Writes to them: tests/func/test_writes.py."""

import pytest

import autograd_gpu as ag
from autograd_gpu.core.interpret.batched import Batched, Batching, batched
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.new_tensors import drawn, lifted_like, made_inside
from autograd_gpu.core.interpret.recorded import Recorded, Recording

pytestmark = pytest.mark.cpu


def test_levels_of_new_tensors():
    plain = ag.ones(3)
    assert made_inside(plain) is lifted_like(plain) is plain
    with entered(Batching(2, "different")) as vmap, entered(Recording()) as level:
        x = made_inside(plain)
        assert (type(x), x._level, x._value is plain, x.requires_grad) == (Recorded, level, True, False)
        integers = ag.arange(3)
        assert type(made_inside(integers)) is ag.Tensor
        like = lifted_like(ag.zeros(3), batched(vmap, ag.ones(2, 5)))
        assert (type(like), type(like._value), like._value._value.shape) == (Recorded, Batched, (2, 3))
        numbers = drawn((3,), lambda shape: ag.Tensor(ag.zeros(shape).array))
        assert (type(numbers), numbers._value._value.shape) == (Recorded, (2, 3))


def test_results_of_constants_belong_to_the_level():
    captured = ag.ones(3)
    with entered(Batching(2)), entered(Recording()) as level:
        made = {"new": captured * 2, "copy": captured.clone(), "view": captured[1:], "integers": captured.argmax(0)}
        assert {name for name, x in made.items() if getattr(x, "_level", None) is level} == {"new", "copy"}
        assert (made["new"].tolist(), made["new"].numpy().shape) == ([2.0] * 3, (3,))


def test_a_constant_outlives_its_level():
    """A module may keep a table that it made in its first call."""
    kept = []

    def function(x):
        kept.extend([ag.ones(3), x * 2])
        return (x * kept[0]).sum()

    ag.func.jvp(ag.func.grad(function), (ag.ones(3),), (ag.ones(3),))
    assert (kept[0] + 1).tolist() == ag.ones(3).add_(kept[0]).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="used after the transform has ended"):
        kept[1] + 1


def test_a_constant_may_be_written_to_a_captured_tensor():
    """As running statistics are: nothing of a derivative is lost."""
    mean = ag.zeros(3)
    ag.func.hessian(lambda x: (mean.mul_(0.5).add_(x.detach()) * x * x).sum(), method="nested")(ag.ones(3))
    assert mean.tolist() == [1.0] * 3
