"""In-place methods as functions, splits whose parts may be written to, tensors of given strides."""

import pytest
from against_torch import both, leaf
from torch_names import NAMES

import autograd_gpu as ag

ARGUMENTS = {
    "addmv_": lambda m: (m.eye(2), m.ones(2)), "as_strided_": lambda m: ((1, 2), (2, 1)),
    "clamp_": lambda m: (0.3, 0.5), "clamp_max_": lambda m: (0.5,), "clamp_min_": lambda m: (0.5,),
    "fill_": lambda m: (0.25,), "clip_": lambda m: (0.5,), "index_put_": lambda m: ((m.tensor([1]),), m.ones(1)),
    "ldexp_": lambda m: (m.tensor([1, 2]),), "xlogy_": lambda m: (m.tensor([0.5, 0.6]),),
    "gcd_": lambda m: (m.tensor([4, 6]),), "lcm_": lambda m: (m.tensor([4, 6]),),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES["In place"])
def test_functions(name):
    def program(m):
        x = m.tensor([6, 4]) if name in ("gcd_", "lcm_") else m.tensor([0.25, 0.75])
        if name in ("acosh_", "arccosh_"):
            x = x + 1
        result = getattr(m, name)(x, *ARGUMENTS.get(name, lambda m: ())(m))
        assert result is x
        return x, x._version

    both(program)


@pytest.mark.parametrize("name", ["exp_", "fill_", "detach_", "square_"])
def test_the_first_parameter_is_input(name, device):
    x = ag.ones(2, device=device)
    assert getattr(ag, name)(input=x, **({"value": 2.0} if name == "fill_" else {})) is x


SPLITS = {
    "split": lambda m, x: m.unsafe_split(x, 2), "sizes": lambda m, x: m.unsafe_split_with_sizes(x, [1, 3]),
    "chunk": lambda m, x: m.unsafe_chunk(x, 2), "method": lambda m, x: x.unsafe_split(3),
    "method of sizes": lambda m, x: x.unsafe_split_with_sizes((2, 2), dim=0),
    "chunk method": lambda m, x: x.unsafe_chunk(3, 0), "one": lambda m, x: m.unsafe_split(x, 4),
}  # fmt: skip


@pytest.mark.parametrize("split", SPLITS)
def test_parts_may_be_written_to(split):
    def program(m):
        x = leaf(m, 1, 2, 3, 4)
        base = x * 1
        parts = SPLITS[split](m, base)
        before = parts[-1].exp().sum()
        parts[0].mul_(2)
        known = [(p._is_view(), p._version) for p in parts], base._version, parts, base.grad_fn.name()
        return *known, m.autograd.grad(before + parts[0].sum(), x)

    both(program)


@pytest.mark.parametrize("call", [
    lambda m: m.unsafe_split(m.ones(4), -1), lambda m: m.unsafe_split_with_sizes(m.ones(4), [1, 2]),
    lambda m: m.unsafe_chunk(m.ones(4), 0),
])  # fmt: skip
def test_refusals(call):
    both(call)


@pytest.mark.parametrize(("size", "stride"), [((2, 3), (1, 2)), ((2, 3), (4, 1)), ((2,), (3,)), ((), ()),
                                              ((2, 3), (0, 1))])  # fmt: skip
def test_empty_strided(size, stride):
    def program(m):
        x = m.empty_strided(size, stride, dtype=m.float64)
        y = m.ones(1, dtype=m.int64).new_empty_strided(size, stride)
        return tuple(x.shape), x.stride(), x.is_contiguous(), y.stride(), x.element_size(), x._is_view(), y.zero_()

    both(program)


def test_empty_strided_without_elements():
    both(lambda m: tuple(m.empty_strided((0, 3), (3, 1)).shape))


def test_empty_strided_that_requires_grad():
    def program(m):
        x = m.empty_strided((2, 3), (1, 2), requires_grad=True)
        return x.requires_grad, x.is_leaf

    both(program)


def test_empty_strided_refuses(device):
    with pytest.raises(RuntimeError, match=r"dimensionality of sizes \(2\) must match dimensionality of strides \(1\)"):
        ag.empty_strided((2, 3), (1,), device=device)
    with pytest.raises(RuntimeError, match="Negative sizes and strides are not supported"):
        ag.empty_strided((2, 3), (1, -2), device=device)
