"""Integers that a dtype does not hold: they wrap around in arithmetic, and are refused where a value is set."""

import functools

import pytest
from against_torch import both

import autograd_gpu as ag

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
ARITHMETIC = {
    "&": lambda m, t, n: t & n, "|": lambda m, t, n: t | n, "^": lambda m, t, n: n ^ t, "+": lambda m, t, n: t + n,
    "-": lambda m, t, n: n - t, "*": lambda m, t, n: t * n, "%": lambda m, t, n: t % n, "//": lambda m, t, n: t // n,
    "add_": lambda m, t, n: t.add_(n), "sub_": lambda m, t, n: t.sub_(n), "mul_": lambda m, t, n: t.mul_(n),
    "and_": lambda m, t, n: t.bitwise_and_(n), "alpha": lambda m, t, n: m.add(t, 2, alpha=-1),
    "alpha_": lambda m, t, n: t.add_(t.clone(), alpha=-1), "maximum": lambda m, t, n: m.fmod(t, n),
    "where": lambda m, t, n: m.where(t > 3, t, -1), "rsub": lambda m, t, n: m.rsub(t, n),
}  # fmt: skip


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_arithmetic_wraps(dtype, name):
    for number in (-2, 300, -301, 70001, 2**33 + 5, 2**63 + 7):
        both(lambda m, n=number: ARITHMETIC[name](m, m.tensor([1, 7, 100], dtype=getattr(m, dtype)), n))


def item(m, t, n):
    t[0] = n
    return t


def items(m, t, n):
    t[m.tensor([0, 2])] = n
    return t


def masked(m, t, n):
    t[t > 3] = n
    return t


VALUES = {
    "fill_": lambda m, t, n: t.fill_(n), "full": lambda m, t, n: m.full((2,), n, dtype=t.dtype), "item": item,
    "items": items, "mask": masked, "full_like": lambda m, t, n: m.full_like(t, n),
    "new_full": lambda m, t, n: t.new_full((2,), n), "tensor": lambda m, t, n: m.tensor(n, dtype=t.dtype),
    "masked_fill": lambda m, t, n: t.masked_fill(t > 3, n), "index_fill": lambda m, t, n: t.index_fill(
        0, m.tensor([1]), n),
    "scatter": lambda m, t, n: t.scatter(0, m.tensor([1]), n),
    "fill_diagonal_": lambda m, t, n: t.repeat(3, 1).fill_diagonal_(n),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_values_have_to_fit(dtype, name):
    def program(m, number):
        t = m.tensor([1, 7, 100], dtype=getattr(m, dtype))
        try:
            return VALUES[name](m, t, number)
        except RuntimeError as error:
            return str(error).partition(" to type")[0], t

    for number in (-1, -128, 127, 255, 300, -300, 2**40):
        both(functools.partial(program, number=number))


@pytest.mark.parametrize("call", [
    lambda t: t.clamp(min=-1), lambda t: t.clamp(max=300), lambda t: t**-1, lambda t: t**300, lambda t: t + 2**70,
])  # fmt: skip
def test_refused(call, device):
    with pytest.raises((RuntimeError, OverflowError), match=r"cannot be converted|int too big"):
        call(ag.tensor([1, 2], dtype=ag.uint8, device=device))


def test_comparisons_go_by_value(device):
    t = ag.tensor([100, 20], dtype=ag.uint8, device=device)
    assert (t < 300).tolist() == (t > -1).tolist() == [True, True]
    assert (t == 356).tolist() == [False, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_large_integers_in_floating_dtypes(dtype):
    def program(m):
        t = m.zeros(2, dtype=getattr(m, dtype))
        number = 2**63 if dtype != "float16" else 2**15
        return m.full_like(t, number), m.full((2,), number, dtype=t.dtype), t + number, t.clone().fill_(number)

    both(program)


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_losses_of_0d_tensors_promote_as_if_broadcast(name, reduction):
    def program(m):
        loss, kinds = getattr(m.nn.functional, name), (m.float16, m.bfloat16, m.float32, m.float64)
        seen = []
        for a in kinds:
            for b in kinds:
                for sizes in (((2,), ()), ((), (2,))):
                    x, y = m.ones(sizes[0], dtype=a), m.zeros(sizes[1], dtype=b)
                    seen.append(str(loss(x, y, reduction=reduction).dtype).removeprefix("torch."))
        return seen

    both(program)
