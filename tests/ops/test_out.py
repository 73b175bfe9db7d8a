"""`out=`: the result in a tensor of the caller's, as an in-place operation."""

import inspect
import pickle
import re
import warnings

import pytest
from against_torch import both, leaf, torch

import autograd_gpu as ag

CALLS = {
    "add": lambda m, o: m.add(m.ones(2), m.ones(2), alpha=3, out=o),
    "mul": lambda m, o: m.mul(input=m.ones(2), other=m.ones(2), out=o),
    "mul by a number": lambda m, o: m.mul(m.ones(2), 2, out=o), "exp": lambda m, o: m.exp(m.ones(2), out=o),
    "sum": lambda m, o: m.sum(m.ones(2, 3), 1, out=o), "mean": lambda m, o: m.mean(m.ones(2, 3), 1, True, out=o),
    "div": lambda m, o: m.div(m.ones(2), 3, rounding_mode="floor", out=o),
    "cat": lambda m, o: m.cat([m.ones(2)], out=o),
    "stack": lambda m, o: m.stack([m.tensor(1.0), m.tensor(2.0)], out=o), "std": lambda m, o: m.std(m.eye(2), 0, out=o),
    "where": lambda m, o: m.where(m.tensor([True, False]), m.ones(2), m.zeros(2), out=o),
    "clamp": lambda m, o: m.clamp(m.ones(2), 0, 0.5, out=o), "eq": lambda m, o: m.eq(m.ones(2), m.ones(2), out=o),
    "mv": lambda m, o: m.mv(m.eye(2), m.ones(2), out=o), "diag": lambda m, o: m.diag(m.eye(2), out=o),
    "quantile": lambda m, o: m.quantile(m.eye(2), 0.5, 0, out=o), "zeros": lambda m, o: m.zeros(2, out=o),
    "full": lambda m, o: m.full((2,), 7.0, out=o), "arange": lambda m, o: m.arange(2, out=o),
    "linspace": lambda m, o: m.linspace(0, 1, 2, out=o), "entr": lambda m, o: m.special.entr(m.ones(2), out=o),
    "solve": lambda m, o: m.linalg.solve(m.eye(2), m.ones(2), out=o), "max": lambda m, o: m.max(m.eye(2), out=o),
    "norm": lambda m, o: m.linalg.vector_norm(m.eye(2), dim=0, out=o),
    "ldexp": lambda m, o: m.ldexp(m.ones(2), m.tensor([1, 2]), out=o),
    "gather": lambda m, o: m.gather(m.ones(2), 0, m.tensor([1]), out=o),
    "ones": lambda m, o: m.ones((2,), out=o), "eye": lambda m, o: m.eye(2, out=o),
    "argmax": lambda m, o: m.argmax(m.eye(2), 0, out=o.long() if o.numel() else m.empty(0, dtype=m.int64)),
}  # fmt: skip


@pytest.mark.parametrize("size", [0, 2])
@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name, size):
    def program(m):
        out = m.empty(size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CALLS[name](m, out)
        return result is out, result, tuple(result.shape), out._version > 0

    both(program)


def a_wrong_shape(m):
    o = m.empty(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m.mul(m.ones(2), m.ones(2), out=o)
    return o, [str(w.message).split(", and in a future")[0] for w in caught], [str(w.category) for w in caught]


def other_dtypes(m):
    return [m.mul(m.ones(2), m.full((2,), 0.1), out=m.empty(2, dtype=d)) for d in (m.float64, m.float16, m.bfloat16)]


def several(m):
    values, places = m.empty(2), m.empty(2, dtype=m.int64)
    result = m.max(m.eye(2), 0, out=(values, places))
    parts = m.sort(m.tensor([2.0, 1.0]), out=(values, places))
    return result[0] is values, result.indices is places, parts.values is values, values, places


def itself(m):
    x = m.ones(3)
    return m.exp(x, out=x) is x, x, x._version


def a_view(m):
    o = m.zeros(2, 2)
    m.add(m.ones(2), m.ones(2), out=o[0])
    return o, o._version


def of_what_is_saved(m):
    x, o = leaf(m), m.ones(2)
    y = (x * o).sum()
    m.add(m.ones(2), m.ones(2), out=o)
    y.backward()


def under_no_grad(m):
    with m.no_grad():
        o = leaf(m)
        m.mul(leaf(m), m.ones(2), out=o)
    return o, o.requires_grad, o._version


def without_out(m):
    return m.mul(m.ones(2), m.ones(2), out=None), m.max(m.ones(2), out=None), m.zeros(2, out=None)


@pytest.mark.parametrize("program", [
    a_wrong_shape, other_dtypes, several, itself, a_view, of_what_is_saved, under_no_grad, without_out,
], ids=lambda f: f.__name__)  # fmt: skip
def test_writes(program):
    both(program)


@pytest.mark.parametrize("name", ["mul", "cat", "max", "sort"])
def test_recording_is_refused(name):
    calls = {"mul": lambda m, x, o: m.mul(m.ones(2), x, out=o), "cat": lambda m, x, o: m.cat([m.ones(2), x], out=o),
             "max": lambda m, x, o: m.max(x, out=o),
             "sort": lambda m, x, o: m.sort(x, out=(o, m.empty(2, dtype=m.int64)))}  # fmt: skip
    both(lambda m: calls[name](m, leaf(m), m.empty(2)))
    both(lambda m: calls[name](m, m.ones(2), leaf(m)))


def test_refusals(device):
    x, o = ag.ones(2, device=device), ag.zeros(2, device=device)
    for call, error, text in (
        (lambda: ag.mul(x, x, out=ag.zeros(2, dtype=ag.int64, device=device)), RuntimeError, "can't be cast to the"),
        (lambda: ag.mul(x, x, out=3), TypeError, r"mul\(\): argument 'out' must be Tensor, not int"),
        (lambda: ag.zeros(2, out=3), TypeError, "argument 'out' must be Tensor"),
        (lambda: ag.mul(x, x, o), TypeError, r"mul\(\) takes 2 positional arguments but more were given"),
        (lambda: ag.mul(x, x, o, o), TypeError, "`out` goes by name"),
        (lambda: ag.mul(x, x, out=(o, o)), TypeError, "expected a Tensor but got 2"),
        (lambda: ag.max(ag.eye(2, device=device), 0, out=o), TypeError, "expected tuple of 2 elements"),
        (lambda: ag.mul(x, x, out=o[:1].expand(2)), RuntimeError, "refers to a single memory location"),
        (lambda: ag.mul(x, ag.ones(3, device=device), out=o), RuntimeError, "must match the size"),
        (lambda: ag.transpose(x, 0, 0, out=o), TypeError, "unexpected keyword argument 'out'"),
        (lambda: ag.mul(x, x, out=x.to(ag.float8_e5m2)), TypeError, "storage dtype"),
    ):
        with pytest.raises(error, match=text):
            call()
    assert (o.tolist(), o._version) == ([0, 0], 0)


def test_a_resized_out_has_memory_of_its_own(device):
    o = ag.ones(4, device=device)
    view = o[:2]
    with pytest.warns(UserWarning, match="was resized since it had shape"):
        ag.mul(view, 3, out=o)
    assert (o.tolist(), view.tolist(), o._version) == ([3, 3], [1, 1], 1)


def test_random_numbers(device):
    for call in (ag.rand, ag.randn):
        o = ag.zeros(3, device=device, dtype=ag.float64)
        assert call(3, out=o) is o
        assert o.dtype == ag.float64
        assert o.abs().sum() > 0
    assert ag.randperm(3, out=ag.empty(3, device=device)).sum() == 3
    assert ag.randint(5, 6, (2,), out=ag.empty(2, device=device)).tolist() == [5, 5]


def test_help_shows_it():
    assert "out" in inspect.signature(ag.max).parameters
    assert inspect.signature(ag.max).parameters["dim"].default is None


@pytest.mark.parametrize("function", [ag.max, ag.min, ag.polygamma, ag.linalg.norm, ag.mul])
def test_functions_are_found_by_name(function):
    assert pickle.loads(pickle.dumps(function)) is function


def takes_out(name, function):
    """Whether a function of PyTorch's does, by its complaints of what is no tensor."""
    if name in ("load", "save"):
        return False
    x, v, i = torch.ones(2, 2), torch.ones(2), torch.tensor([0])
    for calls in ((x,), (x, x), (x, x, x), (x, 0, i), (x, 0, i, x), (x, 0), (x, 2), (2, x), (x, v), (v, v), ([x, x],),
                  (2,), (0, 1, 3), ((2,), 1.0), (x, 1, 0, 1.0), (x, 0, 0, 1), (x > 0, x, x), (x, x > 0),
                  (x, 0.5, 0.1)):  # fmt: skip
        try:
            function(*calls, out=object())
        except TypeError as error:
            if "unexpected keyword argument 'out'" in str(error):
                return False
            if re.search(r"argument 'out'|Tensors? out\b", str(error)):
                return True
        except (RuntimeError, ValueError, IndexError):  # of other arguments; the next ones may fit
            continue
    return False


@pytest.mark.cpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("theirs", "ours"), [(torch, ag), (torch.linalg, ag.linalg), (torch.special, ag.special),
                                              (torch.nn.functional, ag.nn.functional)])  # fmt: skip
def test_every_function_that_has_it_in_pytorch(theirs, ours):
    shared = [name for name in ours.__all__ if callable(getattr(theirs, name, None))]
    functions = {name: getattr(ours, name) for name in shared if not isinstance(getattr(ours, name), type)}
    ours = {name for name, f in functions.items() if "out" in inspect.signature(f).parameters}
    assert not [name for name in functions if name not in ours and takes_out(name, getattr(theirs, name))]


@pytest.mark.parametrize("name", ["relu", "one_hot", "mse_loss"])
def test_what_has_none_in_pytorch(name, device):
    function, out = getattr(ag.nn.functional, name), ag.empty(2, device=device)
    assert not {"out", "_by_name"} & set(inspect.signature(function).parameters)
    with pytest.raises(TypeError, match=r"`out`|unexpected keyword argument 'out'"):
        function(*[ag.ones(2, device=device)] * (2 if name == "mse_loss" else 1), out=out)


def test_a_parameter_by_name_only():
    assert str(inspect.signature(ag.mul)) == "(input, other, *, out=None)"
