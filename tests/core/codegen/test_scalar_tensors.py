"""0-d tensors where numbers are expected: factors, options, sizes."""

import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")

FACTORS = {
    "add": lambda m, x, c: m.add(x, x, alpha=c), "sub": lambda m, x, c: m.sub(x, x, alpha=c),
    "add_": lambda m, x, c: m.zeros(2, 2).add_(x, alpha=c), "sub_": lambda m, x, c: m.zeros(2, 2).sub_(x, alpha=c),
    "recorded add_": lambda m, x, c: (x * 1).add_(x, alpha=c),
    "recorded sub_": lambda m, x, c: (x * 1).sub_(x, alpha=c),
    "addmm": lambda m, x, c: m.addmm(x, x, x, beta=c, alpha=c), "addmm_": lambda m, x, c: (x * 1).addmm_(x, x, beta=c),
    "addmv": lambda m, x, c: m.addmv(x[0], x, x[1], beta=c, alpha=c),
    "addr": lambda m, x, c: m.addr(x, x[0], x[1], beta=c, alpha=c),
    "baddbmm": lambda m, x, c: m.baddbmm(x[None], x[None], x[None], beta=c, alpha=c),
    "addbmm": lambda m, x, c: m.addbmm(x, x[None], x[None], beta=c, alpha=c),
    "addcmul": lambda m, x, c: m.addcmul(x, x, x, value=c), "addcdiv": lambda m, x, c: m.addcdiv(x, x, x, value=c),
    "addcmul_": lambda m, x, c: (x * 1).addcmul_(x, x, value=c),
    "softplus": lambda m, x, c: m.nn.functional.softplus(x, beta=c, threshold=20 * c),
    "elu": lambda m, x, c: m.nn.functional.elu(-x, alpha=c), "celu": lambda m, x, c: m.nn.functional.celu(-x, alpha=c),
    "leaky_relu": lambda m, x, c: m.nn.functional.leaky_relu(-x, c),
    "hardtanh": lambda m, x, c: m.nn.functional.hardtanh(x, -c, c),
    "threshold": lambda m, x, c: m.nn.functional.threshold(x, c, c),
    "softshrink": lambda m, x, c: m.nn.functional.softshrink(x, c),
    "hardshrink": lambda m, x, c: m.nn.functional.hardshrink(x, c),
    "layer_norm": lambda m, x, c: m.nn.functional.layer_norm(x, (2,), eps=c),
    "batch_norm": lambda m, x, c: m.nn.functional.batch_norm(x, None, None, training=True, eps=c),
    "group_norm": lambda m, x, c: m.nn.functional.group_norm(x, 1, eps=c),
    "rms_norm": lambda m, x, c: m.nn.functional.rms_norm(x, (2,), eps=c),
    "normalize": lambda m, x, c: m.nn.functional.normalize(x, eps=c),
    "logit": lambda m, x, c: m.logit(x / 4, eps=c / 2),
    "huber": lambda m, x, c: m.nn.functional.huber_loss(x, 0 * x, delta=c),
    "smooth_l1": lambda m, x, c: m.nn.functional.smooth_l1_loss(x, 0 * x, beta=c),
    "smoothing": lambda m, x, c: m.nn.functional.cross_entropy(x, m.tensor([0, 1]), label_smoothing=c),
    "pad": lambda m, x, c: m.nn.functional.pad(x, (1, 1), value=c),
    "norm": lambda m, x, c: m.linalg.vector_norm(x, 4 * c),
    "index_add": lambda m, x, c: m.index_add(x, 0, m.tensor([0]), x[:1], alpha=c),
    "sum": lambda m, x, c: x.sum(m.tensor(0)), "roll": lambda m, x, c: x.roll(m.tensor(1)),
    "split": lambda m, x, c: x.split(m.tensor(1))[1], "chunk": lambda m, x, c: x.chunk(m.tensor(2))[1],
    "uniform_": lambda m, x, c: m.ones(2).uniform_(c, c), "normal_": lambda m, x, c: m.ones(2).normal_(c, 0 * c),
}  # fmt: skip


@pytest.mark.parametrize("call", FACTORS.values(), ids=list(FACTORS))
def test_a_tensor_is_its_number(call):
    """Values and gradients, which read the number again."""
    results = []
    for m in (torch, ag):
        x = m.tensor([[0.3, 0.9], [0.6, 1.7]], requires_grad=True)
        y = call(m, x, m.tensor(0.5))
        if y.requires_grad:
            (y * y).sum().backward()
        assert type(y.detach().cpu().numpy()).__name__ == "ndarray"
        results.append((y.flatten().tolist(), x.grad.flatten().tolist() if y.requires_grad else None))
    assert results[1][0] == pytest.approx(results[0][0], rel=1e-5)
    assert results[1][1] is results[0][1] or results[1][1] == pytest.approx(results[0][1], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", ["add", "addmm", "softplus", "add_"])
def test_a_number_that_wants_a_gradient_is_refused(name):
    """PyTorch refuses it as "must be Number, not Tensor"; nobody would compute the gradient."""
    for m in (torch, ag):
        with pytest.raises(TypeError):
            FACTORS[name](m, m.ones(2, 2), m.tensor(0.5, requires_grad=True))
    with pytest.raises(TypeError, match=r"must be a number or a 0-d tensor .* has shape \[2\]"):
        FACTORS[name](ag, ag.ones(2, 2), ag.ones(2))


OPTIMIZERS = {
    "eps": lambda m, p: m.optim.Adam([p], eps=m.tensor(1e-2)), "lr": lambda m, p: m.optim.Adam([p], lr=m.tensor(0.1)),
    "weight_decay": lambda m, p: m.optim.Adam([p], weight_decay=m.tensor(0.1)),
    "betas": lambda m, p: m.optim.Adam([p], betas=(m.tensor(0.5), m.tensor(0.9))),
    "AdamW": lambda m, p: m.optim.AdamW([p], lr=m.tensor(0.1), eps=m.tensor(1e-3)),
    "SGD": lambda m, p: m.optim.SGD([p], lr=m.tensor(0.1), momentum=m.tensor(0.9), weight_decay=m.tensor(0.1)),
    "RMSprop": lambda m, p: m.optim.RMSprop([p], lr=m.tensor(0.1), alpha=m.tensor(0.5), eps=m.tensor(1e-3)),
    "Adagrad": lambda m, p: m.optim.Adagrad([p], lr=m.tensor(0.1), lr_decay=m.tensor(0.1)),
    "Adadelta": lambda m, p: m.optim.Adadelta([p], lr=m.tensor(0.1), rho=m.tensor(0.9), eps=m.tensor(1e-3)),
    "NAdam": lambda m, p: m.optim.NAdam([p], eps=m.tensor(1e-3), momentum_decay=m.tensor(4e-3)),
    "Adamax": lambda m, p: m.optim.Adamax([p], eps=m.tensor(1e-3)),
    "ASGD": lambda m, p: m.optim.ASGD([p], lr=m.tensor(0.1), lambd=m.tensor(0.1)),
}  # fmt: skip


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=list(OPTIMIZERS))
def test_options_of_optimizers(make):
    seen = []
    for m in (torch, ag):
        p = m.tensor([1.0, 2.0], requires_grad=True)
        optimizer = make(m, p)
        for _ in range(3):
            optimizer.zero_grad()
            (p * p * p).sum().backward()
            optimizer.step()
        seen.append(p.tolist())
    assert seen[1] == pytest.approx(seen[0], rel=1e-5)


def test_an_option_that_is_a_tensor_is_read_at_each_step():
    p, eps = ag.tensor([1.0], requires_grad=True), ag.tensor(1e-8)
    optimizer = ag.optim.Adam([p], lr=0.5, eps=eps)
    for value in (1e-8, 1e30):
        before = p.tolist()
        eps.fill_(value)
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()
    assert p.tolist() == before
    assert before == pytest.approx([0.5])
    with pytest.raises(ValueError, match=r"Tensor eps must be 1-element, got one of shape \[2\]"):
        ag.optim.Adam([p], eps=ag.ones(2))


CREATIONS = {
    "zeros": lambda m: m.zeros(m.tensor(2)), "two": lambda m: m.zeros(m.tensor(2), 3),
    "tuple": lambda m: m.ones((m.tensor(2), 3)), "vector": lambda m: m.zeros(m.tensor([2])),
    "full": lambda m: m.full((m.tensor(2),), m.tensor(0.5)), "empty": lambda m: m.empty(m.tensor(2)).zero_(),
    "rand": lambda m: m.rand(m.tensor(2)) * 0, "randn": lambda m: m.randn(2, m.tensor(3)) * 0,
    "randint": lambda m: m.randint(m.tensor(0), m.tensor(1), [m.tensor(2)]),
    "randperm": lambda m: m.randperm(m.tensor(1)), "eye": lambda m: m.eye(m.tensor(2), m.tensor(3)),
    "new_zeros": lambda m: m.ones(2).new_zeros(m.tensor(2)),
    "arange": lambda m: m.arange(m.tensor(3)), "arange float": lambda m: m.arange(m.tensor(3.0)),
    "arange step": lambda m: m.arange(m.tensor(1), m.tensor(7), m.tensor(2)),
    "arange mixed": lambda m: m.arange(m.tensor(1), 3.0), "arange int8": lambda m: m.arange(m.tensor(3, dtype=m.int8)),
    "linspace": lambda m: m.linspace(m.tensor(0.0), m.tensor(1.0), m.tensor(3)),
    "logspace": lambda m: m.logspace(m.tensor(0.0), 1.0, 3),
    "one element": lambda m: m.tensor([m.tensor([1.0])]), "two of one": lambda m: m.tensor([m.tensor([1.0]), 2.0]),
    "deep": lambda m: m.tensor([m.tensor([[1.0]])]), "nested": lambda m: m.tensor([[m.tensor([1.0]), 2.0]]),
    "ints": lambda m: m.tensor([m.tensor(1), 2]), "int and float": lambda m: m.tensor([m.tensor(1), 2.5]),
    "float64": lambda m: m.tensor([m.tensor(1.0, dtype=m.float64), 2]),
    "int32": lambda m: m.tensor([m.tensor(1, dtype=m.int32)]), "bool": lambda m: m.tensor([m.tensor(True), False]),
    "half": lambda m: m.tensor([m.tensor(1.0, dtype=m.float16)]),
    "half and float": lambda m: m.tensor([m.tensor(1.0, dtype=m.float16), 0.1]),
    "as_tensor": lambda m: m.as_tensor([m.tensor([1.0]), m.tensor(2.0)]),
    "dtype": lambda m: m.tensor([m.tensor(1), 2], dtype=m.float64),
}  # fmt: skip


@pytest.mark.parametrize("make", CREATIONS.values(), ids=list(CREATIONS))
def test_creation(make):
    theirs, ours = make(torch), make(ag)
    assert (ours.shape, str(ours.dtype)) == (tuple(theirs.shape), str(theirs.dtype).removeprefix("torch."))
    assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist())


def test_tensors_of_several_elements_are_joined_by_stack():
    for m in (torch, ag):
        with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
            m.tensor([m.ones(2), m.ones(2)])
    with pytest.raises(ValueError, match=r"ag.stack or ag.cat, this one has shape \[2\]"):
        ag.tensor([ag.ones(2)])


def test_sizes_that_are_no_integers_are_refused():
    for m in (torch, ag):
        for size in (2.5, m.tensor(2.0), (2.0,)):
            with pytest.raises(TypeError):
                m.zeros(size)
