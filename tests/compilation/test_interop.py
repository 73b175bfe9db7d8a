"""Compiled calls and other libraries' arrays: DLPack outside of the call, NumPy's functions inside."""

import warnings

import numpy as np
import pytest

import autograd_gpu as ag


def test_dlpack_arguments_and_results_share_memory():
    f = ag.compile(lambda x, y: (x.add_(1), x * y)[1], fullgraph=True)
    for i in range(5):
        theirs = np.full((3,), float(i))
        result = f(ag.from_dlpack(theirs), ag.from_dlpack(np.arange(3.0)))
        assert theirs.tolist() == [i + 1.0] * 3  # the write is in their memory
        assert np.from_dlpack(result).tolist() == [0.0, i + 1.0, 2 * (i + 1.0)]
    assert f.counts.compiled == 3


def test_functions_of_numpy_are_recorded():
    def fn(x):
        joined = np.concatenate([x, np.stack([x, x]).sum(0)])
        return np.where(joined > 0, joined, 0 * joined).mean() + np.linalg.norm(x) + np.einsum("i,i->", x, x)

    def run(f):
        seen = []
        for i in range(5):
            x = ag.tensor([i - 2.0, 1.0, 0.5], requires_grad=True, device="cpu")
            loss = f(x)
            loss.backward()
            seen.append((loss.detach().cpu().numpy().tobytes(), x.grad.cpu().numpy().tobytes()))
        return seen

    f = ag.compile(fn, fullgraph=True)
    assert run(f) == run(fn)
    assert f.counts.compiled == 3


@pytest.mark.parametrize("leave", [np.asarray, np.from_dlpack])
def test_leaving_the_library_inside_is_refused(leave):
    f = ag.compile(lambda x: ag.tensor(leave(x * 2)))
    with pytest.warns(UserWarning, match="the values of a tensor are read"):
        assert f(ag.ones(2, device="cpu")).tolist() == [2.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(ag.full((2,), 3.0, device="cpu")).tolist() == [6.0, 6.0]
    assert f.counts.compiled == 0
