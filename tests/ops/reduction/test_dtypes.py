"""`dtype=` of reductions and scans."""

import itertools

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")

DTYPES = ("uint8", "int8", "int32", "int64", "bool", "float16", "float32", "float64")
CALLS = {
    "sum": {}, "sum over a dimension": {"dim": 1}, "nansum": {}, "nansum over a dimension": {"dim": 0}, "prod": {},
    "prod over a dimension": {"dim": 1}, "cumsum": {"dim": 1}, "cumprod": {"dim": 1}, "mean": {"dim": 1},
    "nanmean": {"dim": 1}, "softmax": {"dim": 1}, "log_softmax": {"dim": 1},
}  # fmt: skip
BOOL_SCANS = ("cumsum", "cumprod")  # not in PyTorch


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("call", CALLS)
def test_equals_pytorch(call, device):
    name = call.split()[0]
    for in_dtype, out_dtype in itertools.product(DTYPES, DTYPES):
        if out_dtype == "bool" and name in BOOL_SCANS:
            continue
        x = torch.tensor([[100, 20, 3], [7, 50, 1]]).to(getattr(torch, in_dtype))
        try:
            expected = getattr(torch, name)(x, **CALLS[call], dtype=getattr(torch, out_dtype))
        except RuntimeError:
            with pytest.raises(RuntimeError):
                getattr(ag, name)(ag.tensor(x.numpy(), device=device), **CALLS[call], dtype=out_dtype)
            continue
        result = getattr(ag, name)(ag.tensor(x.numpy(), device=device), **CALLS[call], dtype=out_dtype)
        assert str(result.dtype) == out_dtype, in_dtype
        case = f"{in_dtype} to {out_dtype}"
        np.testing.assert_allclose(result.numpy(force=True), expected.numpy(), rtol=2e-3, err_msg=case)
