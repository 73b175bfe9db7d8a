"""ag.testing.assert_close says what PyTorch's says."""

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")

CASES = {
    "same": lambda m: (m.tensor([1.0, 2.0]), m.tensor([1.0, 2.0 + 1e-6])),
    "one": lambda m: (m.tensor([1.0, 2.0]), m.tensor([1.0, 3.0])),
    "matrix": lambda m: (m.zeros(2, 3), m.ones(2, 3)), "numbers": lambda m: (1.0, 1.5),
    "close": lambda m: (1.0, 1.0 + 1e-9),
    "0-d": lambda m: (m.tensor(1.0), m.tensor(2.0)), "list": lambda m: ([1, m.ones(2)], [1, m.zeros(2)]),
    "dict": lambda m: ({"a": m.ones(2)}, {"a": m.zeros(2)}), "keys": lambda m: ({"a": 1}, {"b": 1}),
    "shape": lambda m: (m.ones(2), m.ones(3)), "dtype": lambda m: (m.ones(2), m.ones(2).double()),
    "ints": lambda m: (m.tensor([1, 2]), m.tensor([1, 3])), "int": lambda m: (1, 2),
    "int and float": lambda m: (1, 1.0),
    "nan": lambda m: (m.tensor([float("nan")]), m.tensor([float("nan")])), "length": lambda m: ([1], [1, 2]),
    "inf": lambda m: (m.tensor([float("inf"), 1.0]), m.tensor([float("inf"), 1.0])), "none": lambda m: (None, None),
    "-inf": lambda m: (m.tensor([float("inf")]), m.tensor([float("-inf")])),
    "bools": lambda m: (m.tensor([True]), m.tensor([False])),
    "half": lambda m: (m.ones(2).half(), m.ones(2).half() + 0.0009),
    "bfloat16": lambda m: (m.ones(2).bfloat16(), m.ones(2).bfloat16() * 1.01),
    "float64": lambda m: (m.ones(2).double(), m.ones(2).double() + 1e-6), "number": lambda m: (m.ones(1), 1.0),
    "text": lambda m: ("a", "a"), "mixed": lambda m: (m.ones(2), [1, 1]),
    "nested": lambda m: ([[m.ones(1)], 2], [[m.zeros(1)], 2]),
    "arrays": lambda m: (np.ones(2), np.zeros(2)), "empty": lambda m: (m.ones(0), m.ones(0)),
    "graph": lambda m: (m.ones(2, requires_grad=True), m.ones(2)),
}  # fmt: skip
OPTIONS = [{}, {"rtol": 0.0, "atol": 2.0}, {"equal_nan": True}, {"check_dtype": False}, {"rtol": 0, "atol": 0},
           {"msg": "mine"},
           {"msg": lambda text: "so: " + text},
           {"check_stride": True}]  # fmt: skip


def outcome(m, case, options):
    actual, expected = CASES[case](m)
    try:
        m.testing.assert_close(actual, expected, **options)
    except (AssertionError, TypeError, ValueError) as error:
        text = str(error).replace("torch.Size([", "(").replace("])", ",)").replace("torch.", "")
        return type(error), text.split() if isinstance(error, AssertionError) else None
    return None


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o))
@pytest.mark.parametrize("case", CASES)
def test_outcomes_and_texts(case, options):
    result, expected = outcome(ag, case, options), outcome(torch, case, options)
    assert (result is None) == (expected is None), (result, expected)
    if expected is not None:
        assert result[0] is expected[0]
    if expected is not None and expected[1] is not None:
        for a, b in zip(result[1], expected[1], strict=True):
            assert a == b or float(a) == pytest.approx(float(b), rel=1e-3, nan_ok=True)


def test_tolerances_are_given_together():
    for m in (torch, ag):
        for alone in ("rtol", "atol"):
            lacking = {"rtol": "atol", "atol": "rtol"}[alone]
            with pytest.raises(ValueError, match=f"specified or omitted, but got no {lacking}"):
                m.testing.assert_close(m.ones(1), m.ones(1), **{alone: 1.0})


def test_strides_and_devices():
    x = ag.ones(2, 3)
    ag.testing.assert_close(x, ag.ones(3, 2).t())
    with pytest.raises(AssertionError, match=r"attribute 'stride\(\)' do not match: \(3, 1\) != \(1, 2\)"):
        ag.testing.assert_close(x, ag.ones(3, 2).t(), check_stride=True)


RANGES = {  # dtype -> the values that occur by default
    "bool": {0, 1}, "uint8": set(range(10)), "int8": set(range(-9, 10)), "int64": set(range(-9, 10)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [*RANGES, "float16", "bfloat16", "float32", "float64"])
def test_make_tensor(dtype, device):
    x = ag.testing.make_tensor((40, 50), dtype=getattr(ag, dtype), device=device)
    assert (x.shape, str(x.dtype), x.device.type) == ((40, 50), dtype, device)
    if dtype in RANGES:
        assert set(x.flatten().tolist()) == RANGES[dtype]
    else:
        assert -9 <= float(x.min()) < -8.5
        assert 8.5 < float(x.max()) <= 9
    ag.manual_seed(3)
    first = ag.testing.make_tensor(3, 2, dtype=x.dtype, device=device)
    ag.manual_seed(3)
    assert (ag.testing.make_tensor([3, 2], dtype=x.dtype, device=device) == first).all()


@pytest.mark.parametrize("options", [
    {"low": 0, "high": 1, "exclude_zero": True}, {"low": 2, "high": 5}, {"low": -1}, {"high": 3},
    {"low": -1e6, "high": 1e6},
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_make_tensor_within(dtype, options):
    """The values lie between the limits that PyTorch's show."""
    made = [m.testing.make_tensor(3000, dtype=getattr(m, dtype), device="cpu", **options).double() for m in (torch, ag)]
    (low, high), (least, most) = [(float(x.min()), float(x.max())) for x in made]
    assert abs(low - least) + abs(high - most) <= 0.02 * (high - low) + 1e-6
    assert not options.get("exclude_zero") or bool((made[1] != 0).all())


def test_make_tensor_layouts():
    for m in (torch, ag):
        make = lambda *sizes, m=m, **kw: m.testing.make_tensor(*sizes, dtype=m.float32, device="cpu", **kw)  # noqa: E731
        strides = [make(*sizes, noncontiguous=True).stride() for sizes in ((3,), (1,), (3, 2), ())]
        assert strides == [(2,), (1,), (4, 2), ()]
        assert make(2, requires_grad=True).requires_grad


@pytest.mark.parametrize("options", [
    {"low": 2, "high": 1}, {"dtype": "int8", "low": 1, "high": 1}, {"low": float("nan")},
    {"dtype": "int64", "requires_grad": True}, {"noncontiguous": True, "memory_format": "contiguous_format"},
])  # fmt: skip
def test_make_tensor_refuses(options):
    texts = []
    for m in (torch, ag):
        named = {name: getattr(m, value) if isinstance(value, str) else value for name, value in options.items()}
        with pytest.raises(ValueError, match=" ") as error:
            m.testing.make_tensor(3, **{"dtype": m.float32, "device": "cpu", **named})
        texts.append(str(error.value).replace("torch.", "").replace("autograd_gpu.", ""))
    assert texts[0] == texts[1]
