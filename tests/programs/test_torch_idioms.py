"""Lines that PyTorch's users write every day give the same plain values here, with `lib` in the place of torch."""

import copy
import importlib
import warnings

import numpy as np
import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu
torch = pytest.importorskip("torch")
IDIOMS = []


def idiom(function):
    IDIOMS.append(pytest.param(function, id=function.__name__))
    return function


@idiom
def bidirectional_lstm(lib):
    lstm = lib.nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True)
    out, (h, c) = lstm(lib.ones(2, 4, 3))
    return [tuple(out.shape), tuple(h.shape), tuple(c.shape), sorted(lstm.state_dict())]


@idiom
def packed_sequences(lib):
    rnn = importlib.import_module(f"{lib.__name__}.nn.utils.rnn")
    packed = rnn.pack_padded_sequence(lib.ones(3, 4, 2), [4, 2, 1], batch_first=True)
    out, _ = lib.nn.GRU(2, 3, batch_first=True)(packed)
    padded, lengths = rnn.pad_packed_sequence(out, batch_first=True)
    return [tuple(padded.shape), lengths.tolist()]


@idiom
def loader_of_a_split(lib):
    data = importlib.import_module(f"{lib.__name__}.utils.data")
    whole = data.TensorDataset(lib.arange(10.0).reshape(10, 1), lib.arange(10))
    train, test = data.random_split(whole, [7, 3], generator=lib.Generator().manual_seed(1))
    loader = data.DataLoader(train, batch_size=3, shuffle=True)
    return [[tuple(x.shape) for x, _ in loader], len(test), len(loader)]


@idiom
def densities(lib):
    d = lib.distributions
    categorical = d.Categorical(logits=lib.zeros(2, 3))
    normal = d.MultivariateNormal(lib.zeros(2), lib.eye(2))
    return [categorical.log_prob(lib.tensor([0, 1])).tolist(), categorical.entropy().tolist(),
            normal.log_prob(lib.ones(2)).item(), d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 2.0)).item()]


@idiom
def schedule_of_a_rate(lib):
    p = lib.nn.Parameter(lib.zeros(1))
    optimizer = lib.optim.Adam([p], lr=1.0)
    scheduler = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    optimizer.step()
    scheduler.step()
    return scheduler.get_last_lr()


@idiom
def mixed_precision_that_is_off(lib):
    scaler, p = lib.cuda.amp.GradScaler(enabled=False), lib.nn.Parameter(lib.ones(1))
    optimizer = lib.optim.SGD([p], 0.1)
    with lib.autocast("cpu", enabled=False):
        loss = (p * 2).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return p.item()


@idiom
def names_of_nested_parameters(lib):
    nn = lib.nn
    modules = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ModuleList([nn.ReLU(), nn.Linear(1, 2)])})
    return [[name for name, _ in modules.named_parameters()], repr(nn.Sequential(nn.Linear(2, 3), nn.Tanh()))]


@idiom
def selections(lib):
    x = lib.arange(4.0)
    x[x > 1] = 0
    values, places = lib.topk(lib.tensor([1.0, 3.0, 2.0]), 2)
    return [x.tolist(), lib.where(x > 0)[0].tolist(), (x == 0).nonzero(as_tuple=True)[0].tolist(), values.tolist(),
            places.tolist(), lib.sort(lib.tensor([2, 1])).indices.tolist()]


@idiom
def compilers(lib):
    return [lib.jit.script(lib.nn.Identity())(lib.ones(1)).item(),
            lib.compile(lambda x: x + 1, backend="eager")(lib.ones(1)).item()]


@idiom
def own_function(lib):
    class Sign(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sign()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() < 1).float()

    x = lib.tensor([0.5, 2.0], requires_grad=True)
    Sign.apply(x).sum().backward()
    return x.grad.tolist()


@idiom
def initial_weights(lib):
    def init(module):
        if isinstance(module, lib.nn.Linear):
            lib.nn.init.xavier_uniform_(module.weight, gain=lib.nn.init.calculate_gain("tanh"))
            module.bias.data.fill_(0.01)

    net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Tanh())
    net.apply(init)
    return net[0].bias.tolist()


@idiom
def moving_average_of_weights(lib):
    net = lib.nn.Linear(1, 1)
    average = copy.deepcopy(net)
    net.weight.data.fill_(2.0)
    average.weight.data.fill_(1.0)
    with lib.no_grad():
        for a, b in zip(average.parameters(), net.parameters(), strict=True):
            a.mul_(0.9).add_(b.data, alpha=0.1)
    return average.weight.item()


@idiom
def losses_of_logits(lib):
    F = lib.nn.functional
    weighted = F.binary_cross_entropy_with_logits(lib.zeros(2), lib.ones(2), pos_weight=lib.tensor(2.0))
    smoothed = lib.nn.CrossEntropyLoss(label_smoothing=0.1)(lib.eye(3), lib.arange(3))
    return [weighted.item(), smoothed.item(), F.gumbel_softmax(lib.zeros(2, 3), hard=True).sum().item()]


@idiom
def checkpoint_of_a_block(lib):
    x = lib.ones(2, requires_grad=True)
    lib.utils.checkpoint.checkpoint(lambda x: (x * 2).sin(), x, use_reentrant=False).sum().backward()
    return x.grad.tolist()


@idiom
def transforms(lib):
    gradient = lib.func.grad(lambda x: (x**2).sum())(lib.ones(2))
    return [gradient.tolist(), lib.vmap(lambda x: x * 2)(lib.ones(2)).tolist()]


@idiom
def old_types(lib):
    x = lib.FloatTensor([1, 2])
    return [x.type(), x.tolist(), x.double().type(), isinstance(x, lib.FloatTensor), x.new(2).shape[0]]


def run(lib, function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(lib)


def same(ours, theirs):
    if isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    else:
        assert ours == theirs


@pytest.mark.parametrize("function", IDIOMS)
def test_an_idiom_gives_what_it_gives_in_pytorch(function):
    same(run(ag, function), run(torch, function))
