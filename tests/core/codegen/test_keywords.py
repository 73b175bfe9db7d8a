"""Words that a call may use: NumPy's `axis` and `keepdims`, and the old words of losses."""

import inspect

import pytest

import autograd_gpu as ag
from autograd_gpu.core.codegen.source import materialize

X = [[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]]
INDEX = [[0, 1, 0]]
# Calls of a tensor's functions and methods that PyTorch takes too: m is ag or torch, x of shape (2, 3).
CALLS = {
    "sum": lambda m, x: m.sum(x, axis=0, keepdims=True), "mean": lambda m, x: x.mean(axis=1),
    "tuple": lambda m, x: x.sum(axis=(0, 1)), "none": lambda m, x: x.sum(axis=None),
    "var": lambda m, x: x.var(axis=0, keepdims=True),
    "std_mean": lambda m, x: m.std_mean(x, axis=0, keepdims=True)[1], "prod": lambda m, x: x.prod(axis=1),
    "argmax": lambda m, x: x.argmax(axis=0, keepdims=True), "all": lambda m, x: (x > 1).all(axis=0),
    "max": lambda m, x: m.max(x, axis=1, keepdims=True)[0], "min": lambda m, x: x.min(axis=0)[1],
    "median": lambda m, x: x.median(axis=1)[0], "amax": lambda m, x: x.amax(axis=(0, 1), keepdims=True),
    "aminmax": lambda m, x: m.aminmax(x, axis=0)[1], "logsumexp": lambda m, x: m.logsumexp(x, axis=0),
    "softmax": lambda m, x: m.softmax(x, axis=1),
    "log_softmax": lambda m, x: x.log_softmax(axis=0), "cumsum": lambda m, x: x.cumsum(axis=0),
    "cumprod": lambda m, x: m.cumprod(x, axis=1), "cat": lambda m, x: m.cat([x, x], axis=1),
    "concatenate": lambda m, x: m.concatenate([x, x], axis=0), "stack": lambda m, x: m.stack([x, x], axis=2),
    "sort": lambda m, x: m.sort(x, axis=0)[0], "argsort": lambda m, x: x.argsort(axis=1),
    "topk": lambda m, x: x.topk(1, axis=0)[0], "kthvalue": lambda m, x: x.kthvalue(1, axis=1, keepdims=True)[0],
    "squeeze": lambda m, x: x[:1].squeeze(axis=0), "unsqueeze": lambda m, x: m.unsqueeze(x, axis=1),
    "unbind": lambda m, x: x.unbind(axis=1)[2], "chunk": lambda m, x: x.chunk(2, axis=1)[0],
    "tensor_split": lambda m, x: m.tensor_split(x, 2, axis=1)[1], "diff": lambda m, x: m.diff(x, axis=0),
    "gather": lambda m, x: x.gather(axis=0, index=m.tensor(INDEX)),
    "narrow": lambda m, x: x.narrow(axis=1, start=1, length=2),
    "index_select": lambda m, x: m.index_select(x, axis=1, index=m.tensor([2, 0])),
    "select": lambda m, x: x.select(axis=1, index=2), "trapezoid": lambda m, x: m.trapezoid(x, axis=0),
    "quantile": lambda m, x: m.quantile(x, 0.5, axis=1, keepdims=True),
    "repeat": lambda m, x: x.repeat_interleave(2, axis=1),
    "cosine": lambda m, x: m.nn.functional.cosine_similarity(x, x.exp(), axis=0),
    "linalg.norm": lambda m, x: m.linalg.norm(x, axis=1, keepdims=True),
    "scatter_add": lambda m, x: x.scatter_add(axis=0, index=m.tensor(INDEX), src=x[:1]),
    "size": lambda m, x: m.tensor(x.size(axis=1)), "stride": lambda m, x: m.tensor(x.stride(axis=0)),
    "in place": lambda m, x: x.clone().cumsum_(axis=1), "squeeze_": lambda m, x: x.clone()[:, :1].squeeze_(axis=1),
    "index_add_": lambda m, x: x.clone().index_add_(axis=0, index=m.tensor([1]), source=m.ones(1, 3)),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_axis_is_dim(call):
    torch = pytest.importorskip("torch")
    x, y = ag.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    ours, theirs = call(ag, x), call(torch, y)
    assert ours.shape == tuple(theirs.shape)
    assert ag.allclose(ours.detach().cpu().to(ag.float64), ag.tensor(theirs.tolist(), dtype=ag.float64, device="cpu"))
    if theirs.requires_grad:
        (ours * ours).sum().backward()
        (theirs * theirs).sum().backward()
        assert ag.allclose(x.grad.cpu(), ag.tensor(y.grad.tolist(), device="cpu"), atol=1e-6)


def functions_with(parameter):
    for space in (ag, ag.linalg, ag.special, ag.nn.functional, ag.Tensor):
        for name in dir(space):
            function = getattr(space, name, None)  # None: of a name that is absent
            if name[0] != "_" and inspect.isfunction(function) and parameter in inspect.signature(function).parameters:
                yield pytest.param(function, id=f"{space.__name__}.{name}")


@pytest.mark.parametrize("function", list(functions_with("dim")))
def test_whatever_has_dim_takes_axis(function):
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    in_place = "kwargs" in parameters  # it takes what the function takes
    assert in_place or "axis" in materialize(function).__code__.co_varnames
    assert "axis" not in inspect.signature(function).parameters  # help() stays short


@pytest.mark.parametrize("function", list(functions_with("keepdim")))
def test_whatever_has_keepdim_takes_keepdims(function):
    assert "keepdims" in materialize(function).__code__.co_varnames


def test_both_words_are_an_error():
    x = ag.ones(2, 3)
    for call in (lambda: x.sum(0, axis=0), lambda: ag.cat([x], dim=0, axis=0), lambda: x.softmax(0, axis=1),
                 lambda: ag.max(x, 1, axis=1), lambda: x.chunk(2, 0, axis=0), lambda: x.sum(0, True, keepdims=True)):
        with pytest.raises(TypeError, match="are two names of one argument; give one of them"):
            call()


def test_neither_word_is_an_error_where_one_is_needed():
    x = ag.ones(2, 3)
    with pytest.raises(TypeError, match=r"softmax\(\) missing 1 required argument: 'dim'"):
        ag.softmax(x)
    with pytest.raises(TypeError, match=r"gather\(\) missing 2 required arguments: 'dim' and 'index'"):
        ag.gather(x)
    with pytest.raises(TypeError, match=r"gather\(\) missing 1 required argument: 'index'"):
        x.gather(axis=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        x.sum(axes=0)


def test_help_says_which_words_are_taken():
    assert inspect.getdoc(ag.sum).endswith("`axis` is taken for `dim`, `keepdims` is taken for `keepdim`.")
    assert inspect.getdoc(ag.gather).endswith("`axis` is taken for `dim`.")


LOSSES = {
    "mse_loss": lambda m, x, k: m.nn.functional.mse_loss(x, x.detach() * 2, **k),
    "l1_loss": lambda m, x, k: m.nn.functional.l1_loss(x, x.detach() * 2, **k),
    "smooth_l1_loss": lambda m, x, k: m.nn.functional.smooth_l1_loss(x, x.detach() * 2, **k),
    "bce": lambda m, x, k: m.nn.functional.binary_cross_entropy(m.sigmoid(x), x.detach() / 9, **k),
    "bce_logits": lambda m, x, k: m.nn.functional.binary_cross_entropy_with_logits(x, x.detach() / 9, **k),
    "kl_div": lambda m, x, k: m.nn.functional.kl_div(x, x.detach(), **k),
    "poisson": lambda m, x, k: m.nn.functional.poisson_nll_loss(x, x.detach(), **k),
    "cross_entropy": lambda m, x, k: m.nn.functional.cross_entropy(x, m.tensor([0, 2]), **k),
    "nll": lambda m, x, k: m.nn.functional.nll_loss(x, m.tensor([0, 2]), **k),
    "margin_ranking": lambda m, x, k: m.nn.functional.margin_ranking_loss(x[0], x[1], m.ones(3), **k),
    "hinge": lambda m, x, k: m.nn.functional.hinge_embedding_loss(x[0], m.ones(3), **k),
    "soft_margin": lambda m, x, k: m.nn.functional.soft_margin_loss(x, m.ones(2, 3), **k),
    "multi_margin": lambda m, x, k: m.nn.functional.multi_margin_loss(x, m.tensor([0, 2]), **k),
    "multilabel": lambda m, x, k: m.nn.functional.multilabel_margin_loss(x, m.tensor([[0, -1, 1], [2, 0, -1]]), **k),
    "multilabel_soft": lambda m, x, k: m.nn.functional.multilabel_soft_margin_loss(x, m.ones(2, 3), **k),
    "cosine": lambda m, x, k: m.nn.functional.cosine_embedding_loss(x, x * x, m.tensor([1, -1]), **k),
    "triplet": lambda m, x, k: m.nn.functional.triplet_margin_loss(x, x * 2, x * x, **k),
    "MSELoss": lambda m, x, k: m.nn.MSELoss(**k)(x, x.detach() * 2),
    "CrossEntropyLoss": lambda m, x, k: m.nn.CrossEntropyLoss(**k)(x, m.tensor([0, 2])),
    "NLLLoss": lambda m, x, k: m.nn.NLLLoss(**k)(x, m.tensor([0, 2])),
    "BCELoss": lambda m, x, k: m.nn.BCELoss(**k)(m.sigmoid(x), x.detach() / 9),
    "BCEWithLogitsLoss": lambda m, x, k: m.nn.BCEWithLogitsLoss(**k)(x, x.detach() / 9),
    "TripletMarginLoss": lambda m, x, k: m.nn.TripletMarginLoss(**k)(x, x * 2, x * x),
    "KLDivLoss": lambda m, x, k: m.nn.KLDivLoss(**k)(x, x.detach()),
}  # fmt: skip
OLD = [{"size_average": True}, {"size_average": False}, {"reduce": False}, {"reduce": True, "size_average": False}]


@pytest.mark.filterwarnings("ignore:.*divides the total loss")
@pytest.mark.parametrize("old", OLD, ids=str)
@pytest.mark.parametrize("call", LOSSES.values(), ids=list(LOSSES))
def test_old_words_for_reduction(call, old):
    torch = pytest.importorskip("torch")
    seen = []
    for m in (torch, ag):
        x = m.tensor(X, requires_grad=True)
        with pytest.warns(UserWarning, match="please use reduction='[a-z]*' instead") as w:
            loss = call(m, x, old)
        texts = [str(warning.message) for warning in w if "size_average" in str(warning.message)]
        loss.sum().backward()
        seen.append((loss.flatten().tolist(), x.grad.flatten().tolist(), texts))
        assert m is torch or w[0].filename == __file__
    assert seen[1][0] == pytest.approx(seen[0][0], rel=1e-4, abs=1e-5)
    assert seen[1][1] == pytest.approx(seen[0][1], rel=1e-4, abs=1e-5)
    assert seen[1][2] == seen[0][2]


def test_a_loss_of_a_user_may_have_these_names_itself():
    class Mine(ag.nn.MSELoss):
        def __init__(self, size_average):
            super().__init__()
            self.size_average = size_average

    assert (Mine(False).size_average, Mine(size_average=3).size_average, Mine(1).reduction) == (False, 3, "mean")
