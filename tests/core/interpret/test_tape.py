"""The calls that a tape keeps, and the tangents pushed through them."""

import pytest

import autograd_gpu as ag
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.tape import Taping, Untapeable

pytestmark = pytest.mark.cpu


def test_only_calls_that_depend_on_the_inputs_are_kept():
    x, w = ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0])
    with entered(Taping("linearize", "ag.func.jvp")) as level:
        place = level.add(x)
        y = (x * w.exp()).sum() + w.sum()
        places = [level.place_of(y), level.place_of(w), place]
    assert [taped.call.op.name for taped in level.calls] == ["mul", "sum", "add"]
    t = ag.tensor([1.0, 10.0])
    with ag.profiler.count() as counted:
        result = level.push({place: t}, places)
    assert (result[0].item(), result[1], result[2] is t) == (pytest.approx(20.0855 + 545.9815, rel=1e-5), None, True)
    assert not counted.rules


def test_a_write_to_what_was_used_is_noticed():
    x, w = ag.tensor([1.0]), ag.tensor([3.0])
    with entered(Taping("linearize", "ag.func.jvp")) as level:
        place = level.add(x)
        places = [level.place_of(x * w)]
    w.add_(1.0)
    with pytest.raises(RuntimeError, match="a tensor that mul used has been modified by an inplace operation"):
        level.push({place: ag.ones(1)}, places)


def test_a_write_is_kept_as_a_call_on_a_copy():
    x = ag.tensor([1.0, 2.0])
    with entered(Taping("linearize", "ag.func.jvp")) as level:
        place = level.add(x)
        y, z = x * 2, ag.ones(2)
        y.mul_(x)
        first = y[:1]
        first.exp_()
        z[1] = x[0]
        places = [level.place_of(t) for t in (y, first, z)]
        y.zero_()
        assert level.place_of(y) is level.place_of(first) is None
    product = next(taped.call for taped in level.calls if taped.call.op.name == "mul" and taped.call.args[1] is x)
    assert product.args[0].tolist() == [2.0, 4.0]
    result = level.push({place: ag.ones(2)}, places)
    assert [t.tolist() for t in result] == [[pytest.approx(29.5562), 8.0], [pytest.approx(29.5562)], [0.0, 1.0]]


def test_arguments_cannot_be_written_to_in_reverse_mode():
    x = ag.tensor([1.0])
    with entered(Taping("hessian", 'method="nested"', reverse=True)) as level:
        level.leaves = {level.add(x)}
        with pytest.raises(Untapeable, match="hessian: the function writes to an argument; clone"):
            x[:1].mul_(2.0)


def test_what_a_node_of_the_plain_graph_saved_keeps_its_number():
    """A backward inside of the function reads the result of tanh from the node, which holds an alias of it."""
    w, x = ag.tensor([0.3], requires_grad=True), ag.tensor([2.0])
    with entered(Taping("linearize", "ag.func.jvp")) as level:
        place = level.add(x)
        gradient_place = level.place_of(ag.autograd.grad((w * x).tanh(), w)[0])
    (result,) = level.push({place: ag.ones(1)}, [gradient_place])
    h = ag.tanh(w * x)
    assert result.item() == pytest.approx(((1 - h * h) * (1 - 2 * x * w * h)).item())


def test_outputs_without_a_derivative_have_no_number():
    x = ag.tensor([1.0, 3.0, 2.0])
    with entered(Taping("linearize", "ag.func.jvp")) as level:
        level.add(x)
        values, indices = x.sort()
        assert (level.place_of(values), level.place_of(indices)) == (1, None)
        assert level.place_of(x.sum(dtype=ag.int64)) is None


def test_what_no_grad_hides_from_reverse_mode_must_not_be_used():
    x = ag.tensor([1.0])
    for reverse in (False, True):
        with entered(Taping("hessian", 'method="nested"', reverse)) as level:
            level.add(x)
            with ag.no_grad():
                y = (x * 2).exp()
            if not reverse:
                assert level.place_of(x + y) is not None
                continue
            with pytest.raises(Untapeable, match="hessian: add uses a value that was computed in a no_grad block"):
                x + y
            assert level.place_of(y.detach() * 2) is None
