"""Second derivatives shared by the ranks, against those of one process."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu import func, nn

RANK, SIZE = dist.get_rank(), dist.get_world_size()
WORLD = dist.GroupMember.WORLD
ENGINE = WORLD.engine


def part(total, rank=RANK):
    """The elements of a rank, as docs/distributed-scaling.md has them."""
    whole, rest = divmod(total, SIZE)
    start = rank * whole + min(rank, rest)
    return slice(start, start + whole + (rank < rest))


def network(inputs=3, width=32, outputs=2, dtype=ag.float64):
    ag.manual_seed(1)
    layers = [nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers).to(dtype)


def values(*shape, seed=0, dtype=ag.float64):
    return ag.tensor(np.random.default_rng(seed).normal(size=shape), dtype=dtype)


def close(mine, expected, rtol=1e-9, atol=1e-11):
    mine, expected = ag.utils._pytree.tree_flatten(mine)[0], ag.utils._pytree.tree_flatten(expected)[0]
    for a, b in zip(mine, expected, strict=True):
        assert a.shape == b.shape, (a.shape, b.shape)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=atol)


def rows_of(tree, rows, dim=0):
    return ag.utils._pytree.tree_map(lambda x: x.narrow(dim, rows.start, rows.stop - rows.start), tree)


def equal(mine, expected):
    close(mine, expected, 0, 0)


DERIVATIVES = [func.hessian, func.hessian_diagonal, func.laplacian, func.value_and_derivatives]


def check_batches():
    """Chunks of equal sizes have the bits of `chunk_size`, and any others those of one process to rounding."""
    net = network()
    for count in (4 * SIZE, 4 * SIZE + 1, SIZE + 1, SIZE - 1, 1):
        x = values(count, 3)
        for make in DERIVATIVES:
            begun, sent = ENGINE.calls, ENGINE.sent
            kept = func.vmap(make(net), group=WORLD, result="sharded")(x)
            assert (ENGINE.calls, ENGINE.sent) == (begun, sent)
            gathered = func.vmap(make(net), group=WORLD)(x)
            expected = func.vmap(make(net))(x)
            close(gathered, expected)
            close(kept, rows_of(expected, part(count)))
            if count % SIZE == 0:
                equal(gathered, func.vmap(make(net), chunk_size=count // SIZE)(x))


def check_arguments_of_vmap():
    def both(row, other, scale):
        return {"sum": (row * other).sin() * scale, "scale": scale * 2}
    x, y, scale = values(2, 5), values(5, 2, seed=1), values(2)
    options = {"in_dims": (1, 0, None), "out_dims": {"sum": 1, "scale": None}}
    equal(func.vmap(both, **options, group=WORLD)(x, y, scale), func.vmap(both, **options)(x, y, scale))
    equal(func.vmap(both, **options, group=WORLD, chunk_size=2)(x, y, scale), func.vmap(both, **options)(x, y, scale))
    with pytest.raises(ValueError, match="draw its own random numbers"):
        func.vmap(both, group=WORLD, randomness="different")
    with pytest.raises(ValueError, match="result is one of 'gathered', 'sharded'; got 'summed'"):
        func.vmap(both, group=WORLD, result="summed")
    with pytest.raises(ValueError, match="needs group"):
        func.vmap(both, result="sharded")


def coupled(x):
    """A scalar function of any number of inputs that are all coupled."""
    y = x.reshape(-1)
    return ((y[1:] - y[:-1] ** 2).sin() ** 2).sum() + (y ** 3).sum() * y.sum()


def check_rows():
    net, vector = network(5, outputs=4), values(5)
    for function, x in ((coupled, values(7)), (coupled, values(2, 3)), (coupled, values(1)), (net, vector)):
        d = x.numel()
        for method in ("auto", "push", "nested"):
            whole = func.hessian(function, method="push")(x)
            close(func.hessian(function, method=method, group=WORLD)(x), whole)
            kept = func.hessian(function, method=method, group=WORLD, result="sharded")(x)
            out = whole.ndim - 2 * x.ndim
            close(kept, rows_of(whole.flatten(out, out + x.ndim - 1), part(d), out))
            diagonal = func.hessian_diagonal(function)(x)
            close(func.hessian_diagonal(function, method=method, group=WORLD)(x), diagonal)
            kept = func.hessian_diagonal(function, method=method, group=WORLD, result="sharded")(x)
            close(kept, diagonal.flatten(out)[..., part(d)])
            close(func.laplacian(function, method=method, group=WORLD)(x), func.laplacian(function)(x))
            terms = func.laplacian(function, method=method, group=WORLD, result="sharded")(x)
            close(terms, diagonal.flatten(out)[..., part(d)].sum(-1))
    with pytest.raises(ValueError, match="a group has nothing to share"):
        func.hessian(coupled, method="pull", group=WORLD)


def check_rows_are_those_of_one_process_bit_by_bit():
    """By "nested" a rank runs its rows of the products, elementwise functions and reductions of one process."""
    x = values(8 * SIZE)
    equal(func.hessian(coupled, method="nested", group=WORLD)(x), func.hessian(coupled, method="nested")(x))
    equal(func.hessian(coupled, method="push", group=WORLD)(x), func.hessian(coupled, method="push")(x))
    equal(func.hessian_diagonal(coupled, group=WORLD)(x), func.hessian_diagonal(coupled)(x))
    first = func.hessian(coupled, group=WORLD)(x)
    equal(func.hessian(coupled, group=WORLD)(x), first)
    copies = [ag.empty_like(first) for _ in range(SIZE)]
    dist.all_gather(copies, first)
    for copy in copies:
        equal(copy, first)


def check_arguments():
    def function(tree, scale, offset):
        a, b = tree["a"], tree["b"]
        return (coupled(a) * (b ** 2).sum() * scale, (b * offset).sin()), a.sum()
    arguments = {"a": values(3), "b": values(2, 2, seed=1)}, ag.tensor(2.0, dtype=ag.float64), values(2, 2, seed=2)
    for make in (func.hessian, func.hessian_diagonal, func.laplacian):
        for argnums in (0, (1, 0)):
            expected, aux = make(function, argnums, True)(*arguments)
            for method in ("auto", "push", "nested"):
                second, own = make(function, argnums, True, method=method, group=WORLD)(*arguments)
                close(second, expected)
                equal(own, aux)
    kept, _ = func.hessian(function, 0, True, group=WORLD, result="sharded")(*arguments)
    own = range(7)[part(7)]
    rows = {"a": [i for i in own if i < 3], "b": [i - 3 for i in own if i >= 3]}
    expected, _ = func.hessian(function, 0, True)(*arguments)
    for k in (0, 1):
        for name in "ab":
            for other in "ab":
                block, x = expected[k][name][other], arguments[0][name]
                out = expected[k]["a"]["a"].ndim - 2
                flat = block.reshape((*block.shape[:out], x.numel(), *arguments[0][other].shape))
                index = ag.tensor(rows[name], dtype=ag.int64)
                close(kept[k][name][other], flat.index_select(out, index))


def check_the_work_is_shared():
    """Products of a hidden layer: 1 + d + P by push, each rank its part of P; rows of the batch of vmap."""
    net, x = network(4, 64, 6), values(4)
    def rows(call):
        call()
        with ag.profiler.count() as counted:
            call()
        return sum(m * times for (m, k, n), times in counted.matmuls.items() if (k, n) == (64, 64))
    pairs = 10
    assert rows(lambda: func.hessian(net, method="push")(x)) == 1 + 4 + pairs
    mine = part(pairs)
    assert rows(lambda: func.hessian(net, method="push", group=WORLD)(x)) == 1 + 4 + (mine.stop - mine.start)
    batch = values(8 * SIZE, 4)
    whole = rows(lambda: func.vmap(func.hessian(net))(batch))
    assert rows(lambda: func.vmap(func.hessian(net), group=WORLD, result="sharded")(batch)) * SIZE == whole
    own = part(4)
    assert rows(lambda: func.laplacian(net, group=WORLD)(x)) == 1 + (own.stop - own.start) + 1


def check_many_inputs_take_no_list_of_their_pairs():
    x = values(1200)
    rows = func.hessian(lambda x: (x ** 3).sum() + x.sum() ** 2, group=WORLD, result="sharded")(x)
    own = part(1200)
    expected = ag.diag(6 * x)[own] + 2
    close(rows, expected)
    zeros = func.hessian(lambda x: x.relu().sum(), group=WORLD, result="sharded")(x)
    assert zeros.shape == (own.stop - own.start, 1200)
    assert bool((zeros == 0).all())


def check_gathering_is_one_all_gather():
    x = values(8 * SIZE)
    for make in (func.hessian, func.hessian_diagonal):
        begun, sent = ENGINE.calls, ENGINE.sent
        result = make(coupled, group=WORLD)(x)
        assert ENGINE.calls - begun == 1
        assert ENGINE.sent - sent == (SIZE - 1) * result.numel() * 8 // SIZE
        begun = ENGINE.calls
        make(coupled, group=WORLD, result="sharded")(x)
        assert ENGINE.calls == begun


def check_under_vmap_and_nesting():
    net, x = network(3), values(5, 3)
    for method in ("push", "nested", "auto"):
        for make in (func.hessian, func.hessian_diagonal, func.laplacian):
            close(func.vmap(make(net, method=method, group=WORLD))(x), func.vmap(make(net))(x))
    gradient = func.grad(lambda x: func.laplacian(coupled, group=WORLD)(x))(values(5))
    assert gradient.shape == (5,)


def check_training_on_a_sharded_hessian():
    """A rank's loss on its own points: the sum of the gradients over the ranks is that of one process."""
    mine, whole, x = network(), network(), values(4 * SIZE, 3)
    (func.vmap(func.laplacian(whole))(x) ** 2).mean().backward()
    terms = func.vmap(func.laplacian(mine), group=WORLD, result="sharded")(x)
    ((terms ** 2).sum() / (2 * len(x))).backward()
    for p, q in zip(mine.parameters(), whole.parameters(), strict=True):
        if q.grad is not None:
            dist.all_reduce(p.grad)
            close(p.grad, q.grad)
    mine.zero_grad()
    gathered = func.vmap(func.laplacian(mine), group=WORLD)(x)  # on all ranks the same loss: DDP's mean of gradients
    (gathered ** 2).mean().backward()
    for p, q in zip(mine.parameters(), whole.parameters(), strict=True):
        if q.grad is not None:
            dist.all_reduce(p.grad, dist.ReduceOp.AVG)
            close(p.grad, q.grad)


def check_a_loss_that_is_a_sum_over_the_ranks():
    net, x = network(3, 8, 1), values(2 * SIZE, 3)
    theta = dict(net.named_parameters())
    theta = {name: p.detach() for name, p in theta.items()}
    v = {name: values(*p.shape, seed=4) for name, p in theta.items()}
    def loss(rows):
        return lambda theta: (func.functional_call(net, theta, (rows,)) ** 2).sum()
    mine = loss(x[part(len(x))])
    expected = func.hvp(loss(x), (theta,), (v,))
    begun = ENGINE.calls
    product = func.hvp(mine, (theta,), (v,), group=WORLD)
    assert ENGINE.calls - begun == 1
    close(product, expected)
    close(func.hessian(mine, group=WORLD, result="summed")(theta), func.hessian(loss(x))(theta))
    close(func.laplacian(mine, group=WORLD, result="summed")(theta), func.laplacian(loss(x))(theta))
    mixed = {"a": values(3), "b": values(3, dtype=ag.float32)}
    product = func.hvp(lambda t: (t["a"] ** 3).sum() + (t["b"] ** 3).sum(), (mixed,), (mixed,), group=WORLD)
    close(product, {name: SIZE * 6 * t * t for name, t in mixed.items()}, 1e-6)


def check_what_a_rank_does_not_hold():
    """Groups of some ranks, fewer rows than ranks, networks without second derivatives."""
    low = dist.new_group([0])
    if RANK:
        with pytest.raises(ValueError, match="not in the group"):
            func.hessian(coupled, group=low)
    else:
        close(func.hessian(coupled, group=low)(values(3)), func.hessian(coupled)(values(3)))
    relu = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    for make in (func.hessian, func.hessian_diagonal, func.laplacian):
        result = make(relu, group=WORLD)(values(3))
        assert bool((result == 0).all())
        assert result.shape == make(relu)(values(3)).shape
    for make in (func.hessian, func.hessian_diagonal, func.laplacian):
        close(make(coupled, group=WORLD)(values(0)), make(coupled)(values(0)))
    nothing = func.vmap(func.hessian(coupled), group=WORLD)(values(0, 3))
    assert nothing.shape == (0, 3, 3)
