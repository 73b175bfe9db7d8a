"""Deprecated forms of calls that PyTorch takes: numbers before tensors, layouts, `resize_`."""

import pytest
from against_torch import both, torch

import autograd_gpu as ag
from autograd_gpu import missing_names

FORMS = [
    "m.add(x, 2, y)", "x.add_(2, y)", "x.sub(2, y)", "x.sub_(2, y)", "x.addcmul(2, y, z)", "x.addcmul_(2, y, z)",
    "m.addcdiv(x, 2, y, z)", "x.addcdiv_(2, y, z)", "x.addcdiv_(-2, y, z[0, 0])", "m.addmm(2, x, y, z)",
    "m.addmm(2, x, 3, y, z)", "x.addmm_(2, 3, y, z)", "x.addmm(2, y, z)", "m.addmv(2, x[0], 3, y, z[0])",
    "x.addr(2, 3, y[0], z[0])", "m.addbmm(2, x, 3, y[None], z[None])", "m.baddbmm(2, x[None], 3, y[None], z[None])",
    "m.linalg.pinv(x, 0.5)", "m.linalg.pinv(x, rcond=0.5, hermitian=True)",
    "m.zeros(2, layout=m.strided)", "m.full((2,), 1.5, layout=m.strided, pin_memory=False)",
    "m.zeros_like(x, layout=m.strided)", "x.new_zeros(2, layout=m.strided)", "m.arange(3, layout=m.strided)",
    "m.eye(2, layout=m.strided)", "m.tensor([1.0], pin_memory=False)", "m.scalar_tensor(3)", "x.layout is m.strided",
    "x.layout == m.sparse_coo", "isinstance(x.layout, m.layout)", "x.to_dense()",
    "x.to_dense(m.float32).dtype.itemsize",
    "(x.is_meta, x.is_mps, x.is_xpu, x.is_mkldnn, x.is_sparse_csr)",
    "x.resize_(4)", "x.resize_(1, 3)", "x[1].resize_(1)", "x[0].resize_(2, 2)", "x.t().resize_(4)[0]",
    "x.resize_(3, 2)[:2]", "x.resize_as_(m.ones(4, 1))",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:.*cuBLAS")
@pytest.mark.parametrize("form", FORMS)
def test_as_pytorch(form):
    def program(m):
        names = {"m": m, "x": m.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=m.float64)}
        names |= {"y": m.full((2, 2), 3.0, dtype=m.float64), "z": m.full((2, 2), 2.0, dtype=m.float64)}
        result = eval(form, names)
        return result.tolist() if hasattr(result, "tolist") else result

    both(program)


def test_gradients_and_warning_of_a_deprecated_form(monkeypatch):
    monkeypatch.setattr(missing_names, "_WARNED", set())

    def program(m):
        x, y, z = (m.tensor([v], requires_grad=True) for v in (1.0, 2.0, 4.0))
        return [g.item() for g in m.autograd.grad((x * 1).addcdiv_(3, y, z), (x, y, z))]

    with pytest.warns(UserWarning, match="This overload of addcdiv is deprecated"):
        assert program(ag) == [1.0, 0.75, -0.375]


def test_refused():
    with pytest.raises(NotImplementedError, match=r"zeros\(\): layout=autograd_gpu.sparse_coo is not supported"):
        ag.zeros(2, layout=ag.sparse_coo)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        ag.ones(2, requires_grad=True).resize_(1)
    with pytest.raises(TypeError, match="rcond is another name of rtol"):
        ag.linalg.pinv(ag.eye(2), rcond=0.1, rtol=0.1)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights(shape, kind):
    def program(m, trivialized):
        layer = m.nn.Linear(shape[1], shape[0], bias=False, dtype=m.float64)
        with m.no_grad():
            layer.weight.copy_(m.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape).sin())
        m.nn.utils.parametrizations.orthogonal(layer, "weight", kind, use_trivialization=trivialized)
        return layer.weight

    if kind != "householder":
        theirs, ours = (program(m, False).tolist() for m in (torch, ag))
        assert ag.allclose(ag.tensor(ours), ag.tensor(theirs), atol=1e-6)
    weight = program(ag, True)
    gram = weight @ weight.mT if shape[0] < shape[1] else weight.mT @ weight
    assert ag.allclose(gram, ag.eye(min(shape), dtype=ag.float64))
    if shape[0] == shape[1]:
        assert ag.allclose(weight, ag.tensor(program(torch, True).tolist(), dtype=ag.float64), atol=1e-6)
