"""What a mode lets through, and the names under which old code finds modes, as with PyTorch."""

import importlib
import warnings

import numpy as np
import pytest
from against_torch import ag, both, leaf, plain, torch

MODES = {
    "no_grad": lambda m: m.no_grad(), "inference_mode": lambda m: m.inference_mode(),
    "set_grad_enabled": lambda m: m.set_grad_enabled(False),
}  # fmt: skip


@pytest.mark.cpu
class TestNumpy:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("inner", [False, True])
    def test_shares_memory_where_nothing_is_recorded(self, mode, inner):
        def program(m):
            x = leaf(m) * 2 if inner else leaf(m)
            with MODES[mode](m):
                array = x.numpy()
                array[0] = 5
                same = np.asarray(x)
            return x, np.shares_memory(array, same), array.tolist()

        assert both(program)[1:] == [True, [5.0, 4.0 if inner else 2.0]]

    @pytest.mark.parametrize("read", [lambda x: x.numpy(), np.asarray], ids=["numpy", "asarray"])
    def test_recording_refuses(self, read):
        def program(m):
            with m.no_grad(), m.enable_grad():
                read(leaf(m))

        kind, text = both(program)
        assert kind is RuntimeError
        assert text.startswith("Can'tcallnumpy()")

    def test_the_capsule_of_dlpack_carries_no_gradient_in_any_mode(self):
        for m in (torch, ag):
            with m.no_grad(), pytest.raises(BufferError, match="Can't export tensors that require gradient"):
                leaf(m).__dlpack__()


@pytest.mark.cuda
def test_numpy_of_a_cuda_tensor_needs_force_in_every_mode():
    x = leaf(ag).cuda()
    with ag.no_grad(), pytest.raises(TypeError, match=r"Use tensor.cpu\(\)"):
        x.numpy()


DECORATORS = {
    "no_grad()": lambda m: m.no_grad(), "no_grad": lambda m: m.no_grad, "enable_grad": lambda m: m.enable_grad,
    "inference_mode()": lambda m: m.inference_mode(), "inference_mode": lambda m: m.inference_mode,
    "set_grad_enabled": lambda m: m.set_grad_enabled(False),
    "set_multithreading_enabled": lambda m: m.autograd.set_multithreading_enabled(True),
}  # fmt: skip


@pytest.mark.parametrize("name", DECORATORS)
def test_decorated_class(name):
    """A warning; the mode is on in the constructor only."""
    def program(m):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")

            @DECORATORS[name](m)
            class Made:
                def __init__(self):
                    self.inside = m.is_grad_enabled()

                def later(self):
                    return m.is_grad_enabled()

        made = Made()
        return made.inside, made.later(), [(w.category.__name__, str(w.message)) for w in caught], m.is_grad_enabled()

    _, later, ((category, _),), after = both(program)
    assert later
    assert after
    assert category == "FutureWarning"


@pytest.mark.parametrize("name", DECORATORS)
def test_the_warning_shows_the_class(name):
    with pytest.warns(FutureWarning, match="Decorating classes") as caught:
        DECORATORS[name](ag)(type("Made", (), {}))
    assert caught[0].filename == __file__


class TestVariable:
    def test_shares_memory_and_version(self):
        def program(m):
            data = m.ones(2)
            x = m.autograd.Variable(data, requires_grad=True)
            data.add_(1)
            kinds = isinstance(x, m.autograd.Variable), isinstance(data, m.autograd.Variable), type(x) is m.Tensor
            return kinds, isinstance(3, m.autograd.Variable), x, x.requires_grad, x.is_leaf, x._version, x is data

        assert both(program) == [[True, True, True], False, [2.0, 2.0], True, True, 1, False]

    def test_cuts_off_what_was_before(self):
        def program(m):
            inner, parameter = leaf(m) * 2, m.nn.Parameter(m.ones(1))
            results = [m.autograd.Variable(t) for t in (inner, parameter)]
            return [(x, x.requires_grad, x.is_leaf, type(x) is m.Tensor) for x in results], m.autograd.Variable()

        both(program)

    @pytest.mark.parametrize("value", [3, [1.0]], ids=str)
    def test_of_something_else(self, value):
        assert both(lambda m: m.autograd.Variable(value))[0] is TypeError

    def test_volatile_warns(self):
        for m in (torch, ag):
            with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
                m.autograd.Variable(m.ones(1), volatile=True)

    def test_queue_callback(self):
        def program(m):
            x, seen = leaf(m), []
            queue = m.autograd.Variable._execution_engine.queue_callback
            x.register_hook(lambda g: queue(lambda: seen.append(plain(x.grad))))
            (x * 2).sum().backward()
            return seen

        assert both(program) == [[2.0, 2.0]]


class TestNames:
    @pytest.mark.parametrize(("module", "names"), [
        ("grad_mode", "no_grad enable_grad set_grad_enabled inference_mode set_multithreading_enabled"),
        ("anomaly_mode", "detect_anomaly set_detect_anomaly"), ("variable", "Variable"),
        ("function", "Function FunctionCtx once_differentiable"),
    ])  # fmt: skip
    def test_modules(self, module, names):
        for m in (torch, ag):
            result = importlib.import_module(f"{m.__name__}.autograd.{module}")
            assert getattr(m.autograd, module) is result or m is torch  # which has a function `variable`
            for name in names.split():
                assert getattr(result, name) is getattr(m.autograd, name, getattr(result, name))

    def test_multithreading(self):
        def program(m):
            enabled, result = m.autograd.is_multithreading_enabled, []
            with m.autograd.set_multithreading_enabled(False):
                result.append(enabled())
            m.autograd.set_multithreading_enabled(False)
            result.append(enabled())
            m.autograd.set_multithreading_enabled(True)

            @m.autograd.set_multithreading_enabled(False)
            def inside():
                return enabled()

            result += [inside(), enabled()] if m is ag else [inside(), True]  # PyTorch's decorator stays on
            m.autograd.set_multithreading_enabled(True)
            return result

        assert both(program) == [False, False, False, True]

    def test_is_inference(self):
        def program(m):
            with m.inference_mode():
                inside = m.ones(1)
            return m.is_inference(inside), m.is_inference(m.ones(1)), m.is_inference(inside.clone())

        assert both(program) == [True, False, False]
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            ag.is_inference(3)
