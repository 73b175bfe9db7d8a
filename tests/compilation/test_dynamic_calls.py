"""dynamic=True on single calls whose arguments depend on a size n: no size gets the result of another one."""

import pytest
from sized_calls import run

import autograd_gpu as ag
from autograd_gpu import nn

pytestmark = [pytest.mark.cpu, pytest.mark.more]
F = nn.functional
SIZES = (32, 32, 17, 64, 5, 6, 100, 2, 9, 128, 7, 13)
CALLS = [  # of x, of shape (n, 4)
    "F.pad(x, (0, n))", "x[0].expand(n, 4)", "ag.randn(n, 4)", "x.new_zeros(n)", "x.new_ones(n, 2)",
    "x.new_full((n,), 2.0)", "ag.randint(0, 5, (n,))", "F.one_hot(x.detach().argmax(1), 4 + n)",
    "ag.empty(n).fill_(1.0)", "x.repeat(n, 1)", "ag.tril_indices(n, n)", "x.narrow(0, 0, n - 1)",
    "x.unflatten(0, (n, 1))", "x.split(n)", "x.sum().expand(n)", "ag.full((n, 2), n)", "ag.zeros(size=(n, 4))",
    "x.roll(n // 2, 0)", "x[n - 1, 0]", "x[..., None][:n]", "x[n - 2 :]", "x[:: max(n // n, 1)]",
    "x * ag.as_tensor(n)", "x * ag.scalar_tensor(n)", "x.abs().pow(1 / n)", "ag.clamp(x, 0, n)", "x // n",
    "x % n", "x.mul(n)", "n * x", "n / x", "n - x", "x < n", "x.clone().add_(n)", "x.clone().div_(n)",
    "ag.zeros(n).fill_(n)", "ag.where(x > 0, n, 0.)", "ag.where(x > 0, 1 / n, 0.)", "x.clone().mul_(1 / n)",
    "x.add(x, alpha=1 / n)", "x.sub(1, alpha=n)", "x / (n * 4)", "x.div(n)", "x.true_divide(n)",
    "x.float_power(2) / n", "ag.add(x, n)", "ag.mul(n, x)", "x.eq(n)", "x.masked_fill(x > 0, n)",
    "x.masked_fill(x > 0, 1 / n)", "F.threshold(x, 1 / n, 0.0)", "F.leaky_relu(x, 1 / n)", "F.softplus(x, beta=n)",
    "F.elu(x, 1 / n)", "F.hardtanh(x, -1 / n, 1 / n)", "F.dropout(x, 1 / n)", "F.layer_norm(x, x.shape[1:])",
    "F.layer_norm(x.T, (n,))", "F.normalize(x, dim=0)", "F.cross_entropy(x.T, ag.arange(4))",
    "F.huber_loss(x, x * 2, delta=1 / n)", "F.smooth_l1_loss(x, x * 2, beta=1 / n)",
    "F.scaled_dot_product_attention(x[None], x[None], x[None], scale=1 / n)", "F.softmax(x / n, 0)",
    "F.gumbel_softmax(x, tau=1 / n)", "F.interpolate(x.T[None], size=2 * n)", "x.view(n, 4)", "x.view((n, 4))",
    "x.view(-1, n)", "x.view([n * 4])", "x.reshape((2, -1, n))", "x.T.reshape(n, 4)", "ag.reshape(x, (n * 4,))",
    "x.expand(2, n, 4)", "x.tile((n, 1))", "ag.broadcast_to(x[0], (n, 4))", "x.view_as(x)", "x.reshape_as(x)",
    "x.flatten().unflatten(0, (n, -1))", "x.movedim(0, 1).reshape(4, n)", "x.unsqueeze(0).squeeze(0)",
    "x.swapdims(0, 1).contiguous().view(4, n)", "ag.stack([x] * 2).view(2 * n, 4)", "ag.arange(0, n)",
    "ag.arange(n, 0, -1)", "ag.arange(n).float() / n", "ag.arange(n, dtype=ag.float32)",
    "ag.arange(n)[:, None] + ag.arange(n)", "ag.ones(n, n).tril()", "ag.ones(n, n, dtype=ag.bool).triu(1)",
    "ag.zeros_like(x).view(-1)", "ag.ones_like(x) / n", "ag.full_like(x, 1 / n)", "ag.empty_like(x).copy_(x)",
    "x.mean(0, keepdim=True).expand(n, -1)", "x.sum(0) / (n - 1)", "((x - x.mean(0)) ** 2).sum(0) / (n - 1)",
    "x.norm(dim=0) / n ** 0.5", "x.cumsum(0) / ag.arange(1, n + 1)[:, None]", "x.topk(n // 2, 0).values",
    "x.kthvalue(n // 2, 0).values", "x.index_select(0, ag.arange(n))", "x.gather(0, ag.zeros(n, 4).long())",
    "ag.zeros(n, 4).scatter_add(0, ag.zeros(n, 4).long(), x)", "ag.zeros(n, 4).index_add(0, ag.arange(n), x)",
    "x[ag.arange(n)]", "x[ag.arange(n), 0]", "x[[0, n - 1]]", "x.take(ag.arange(n))",
    "x.take_along_dim(ag.zeros(n, 4).long(), 0)", "ag.block_diag(x, x)", "ag.cartesian_prod(x[:, 0], x[:, 1])",
    "ag.combinations(x[0])", "ag.hstack([x, x])", "ag.vstack([x, x])", "ag.dstack([x, x])",
    "ag.column_stack([x, x])", "ag.tensordot(x, x, 2)", "ag.inner(x, x)", "ag.outer(x[:, 0], x[:, 0]).view(n * n)",
    "ag.baddbmm(ag.zeros(1, n, n), x[None], x.T[None], beta=1 / n)", "ag.einsum('ij,ij->i', x, x)",
    "ag.linalg.norm(x) / n", "ag.logspace(0, 1, 4) * n", "ag.bernoulli(x.sigmoid())", "ag.poisson(x.abs().detach())",
    "ag.multinomial(x.softmax(1).detach(), 2)", "ag.normal(0.0, 1.0, (n, 4))", "ag.rand(n)", "ag.rand((n, 2))",
    "x.new_tensor([n, 1.0])", "ag.tensor([n, n])", "ag.tensor([1.0, 1 / n])", "ag.cat([x, x.new_zeros(n, 1)], 1)",
    "x.unbind(1)[0] / n", "x.chunk(2, 1)[0].reshape(n * 2)", "x.unfold(1, 2, 1)", "x.as_strided((n, 2), (4, 1))",
    "x.clone().index_fill_(0, ag.arange(1), n)", "x.clone().index_copy_(0, ag.arange(n), x * 2)",
    "x.lerp(x * 2, 1 / n)", "x.addcdiv(x, x.exp(), value=1 / n)", "x.renorm(2, 0, n)", "x.logit(1 / (n + 2))",
    "x.nan_to_num(1 / n)", "x.quantile(1 / n, 1)", "x.var(0, correction=n - 1)", "x.std(0) * n",
    "ag.autograd.grad(x.sin().sum(), x)[0] / n",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_call_does_what_eager_code_does_for_all_sizes(call):
    function = eval(f"lambda x: (lambda n: ({call}))(x.shape[0])", {"ag": ag, "F": F, "max": max})
    run(lambda: (function, []), SIZES)
