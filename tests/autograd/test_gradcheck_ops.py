"""All that gradcheck can check, on some ops of every kind: forward mode, batches, and forward over reverse."""

import pytest
from op_db import Call
from op_rows import ROWS

import autograd_gpu as ag

OPS = ["mul", "div", "exp", "tanh", "sum", "amax", "cumsum", "matmul", "where", "cat", "sort", "gather_along",
       "softmax", "native_layer_norm", "class_nll", "linear", "std", "permute"]  # fmt: skip
CHOSEN = [row for row in ROWS if row.op in OPS]


def test_rows_exist():
    assert {row.op for row in CHOSEN} == set(OPS)


def checked(row):
    """The calls of a row with few elements, as functions of their inputs."""
    for sample in row.draw():
        call = Call(row, sample)
        if call.inputs and all(0 < x.numel() <= 60 for x in call.inputs):
            yield call


def function(call):
    """The floating-point outputs as a function of the inputs, which may be dual tensors."""

    def fn(*tensors):
        def rebuilt(value):
            if isinstance(value, list):
                return [rebuilt(item) for item in value]
            return next((theirs for mine, theirs in zip(call.inputs, tensors, strict=True) if value is mine), value)

        outs = call.row.call(*map(rebuilt, call.args), **call.sample.kwargs)
        return tuple([out for out in (outs if isinstance(outs, tuple) else (outs,)) if out.is_floating_point()])

    return fn


@pytest.mark.parametrize("row", CHOSEN, ids=[row.op for row in CHOSEN])
def test_first_derivatives(row):
    for call in checked(row):
        assert ag.autograd.gradcheck(function(call), tuple(call.inputs), atol=row.grad_atol, fast_mode=True,
                                     check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)


@pytest.mark.parametrize("row", CHOSEN, ids=[row.op for row in CHOSEN])
def test_second_derivatives(row):
    for call in checked(row):
        assert ag.autograd.gradgradcheck(function(call), tuple(call.inputs), atol=row.grad_atol, fast_mode=True,
                                         check_fwd_over_rev=True, check_batched_grad=True)
