"""Cases about `.grad`, optimizers, checks and errors."""

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.autograd import grad

from .common import bits, called, case, data, each, replaying


@case
def grads_accumulate(wrap):
    w = data(1, 3, 3, requires_grad=True)

    def f(x):
        (x @ w).sum().backward()
        return w.grad * (2 if w.grad.is_contiguous() else 3), w.grad

    f, log = wrap(f), []
    for i in range(12):
        held = w.grad
        log += [called(f, data(i), state=[w]), held is w.grad]
        if i == 7:
            w.grad = None
        if i == 9:
            w.grad = w.grad.T.contiguous().T
    return log


@case
def whether_there_is_a_grad(wrap):
    w = data(1, 3, requires_grad=True)
    f, log = wrap(lambda x: x * 2 if w.grad is None else x * w.grad), []
    for value in (None, data(2, 3), None, data(3, 3), data(4, 3) * 1):
        w.grad = value
        log += each(f, 4)
    return log


@replaying(7)
def grads_of_another_memory_at_each_call(wrap):
    w = data(1, 3, requires_grad=True)
    w.grad = held = data(2, 3)
    f, g, log = wrap(lambda x: x * w.grad), wrap(lambda x: x * w * held), []
    for i in range(6):
        log += [called(f, data(i)), called(g, data(i))]
        w.grad = data(i, 3)
    return log


@case
def grads_that_are_set(wrap):
    w, v = data(1, 3, requires_grad=True), data(2, 3, requires_grad=True)

    def f(x):
        w.grad = None
        (w * x).sum().backward()
        (w * x * x).sum().backward()
        v.grad = x[0].detach() * 2
        v.grad.mul_(3)
        return w.grad

    f, log = wrap(f), []
    for i in range(6):
        held = w.grad
        log += [called(f, data(i), state=[w, v]), held is w.grad]
        if held is not None:
            held.zero_()
    return log


@case
def steps_by_hand(wrap):
    """A `.grad` stays what it is, though nothing in the call reads it any more."""
    w = data(1, 3, requires_grad=True)

    def f(x):
        w.grad = None
        (x * w).sum().backward()
        with ag.no_grad():
            w.sub_(w.grad * 0.1)

    return each(wrap(f), state=[w])


@case
def grads_of_arguments(wrap):
    def f(x):
        (x * x).sum().backward()
        return x.grad * 2

    f, log = wrap(f), []
    for i in range(8):
        x = data(i, requires_grad=True)
        if i > 4:
            x.grad = data(i + 1)
        log.append(called(f, x, state=[x]))
    return log


@case
def grads_of_leaves_made_inside(wrap):
    w = data(1, 3, 3, requires_grad=True)

    def f(x):
        z, v = x.detach().requires_grad_(), w.detach().requires_grad_()
        ((z @ v) ** 2).sum().backward()
        (x @ w).sum().backward()
        return z.grad, v.grad

    return each(wrap(f), state=[w])


def trained(make, wrap, change=None, calls=8, **options):
    """The log of steps, with a change of the optimizer after each."""
    ag.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    o = make(m.parameters(), **options)

    def step(x):
        o.zero_grad()
        loss = (m(x) ** 2).sum()
        loss.backward()
        o.step()
        return loss

    step, log, state = wrap(step), [], list(m.parameters())
    for i in range(calls):
        log.append((called(step, data(i), state=state), o._ag_steps_taken))
        if change is not None:
            change(i, o, m)
    return log


@case
def optimizers(wrap):
    def slower(i, o, m):
        o.param_groups[0]["lr"] *= 0.5

    def loaded(i, o, m):
        o.load_state_dict(o.state_dict())

    def frozen(i, o, m):
        m[0].requires_grad_(i % 4 < 2)
        m[0].weight.grad = None

    return (trained(optim.SGD, wrap, slower, lr=0.1, momentum=0.9), trained(optim.Adam, wrap, slower, lr=0.1),
            trained(optim.Adam, wrap, loaded, lr=0.1), trained(optim.SGD, wrap, frozen, 16, lr=0.1))


@case
def grads_set_to_zero(wrap):
    m = nn.Linear(3, 2)
    o = optim.SGD(m.parameters(), lr=0.1)
    with ag.no_grad():
        m.weight.copy_(data(1, 2, 3)), m.bias.zero_()

    def f(x):
        o.zero_grad(set_to_none=False)
        (m(x) ** 2).sum().backward()
        total = nn.utils.clip_grad_norm_(m.parameters(), 0.1)
        nn.utils.clip_grad_value_(m.parameters(), 0.05)
        o.step()
        return total

    return each(wrap(f), 6, state=list(m.parameters()))


@case
def averaged_models(wrap):
    m = nn.Linear(3, 2)
    with ag.no_grad():
        m.weight.copy_(data(1, 2, 3)), m.bias.zero_()
    a = optim.swa_utils.AveragedModel(m)

    def f(x):
        with ag.no_grad():
            m.weight.add_(x[:2] * 0.1)
        a.update_parameters(m)
        return a(x)

    return each(wrap(f), state=[*m.parameters(), *a.parameters(), a.n_averaged])


@case
def a_step_without_grads(wrap):
    w = data(1, 3, requires_grad=True)
    o = optim.SGD([w], lr=0.5)

    def f(x):
        o.step()
        return x * 2

    f, log = wrap(f), []
    for i in range(10):
        if i > 4:
            w.grad = data(i, 3)
        log.append(called(f, data(i), state=[w]))
    return log


@case
def buffers_of_batch_norm(wrap):
    m = nn.BatchNorm1d(3)
    return each(wrap(m), state=[m.running_mean, m.running_var, m.num_batches_tracked])


@case
def checks_of_values(wrap):
    def f(scale):
        return ag.distributions.Normal(0.0, scale).log_prob(ag.ones(4, 3))

    f, log = wrap(f), []
    for i in range(6):
        x = data(i).abs() + 0.1
        log.append(called(f, x if i != 4 else -x))
    g = wrap(lambda x: ag.linalg.cholesky(x @ x.mT + shift * ag.eye(4)))
    shift = data(1).abs().sum()
    for i in range(6):
        if i == 4:
            shift.neg_()
        log.append(called(g, data(i)))
    return log


@case
def errors_in_the_middle(wrap):
    w = data(1, 3, requires_grad=True)

    def f(x, i):
        w.grad = None
        (x * w).sum().backward()
        return x.gather(0, i)

    f, log = wrap(f), []
    for i, at in enumerate((0, 1, 0, 1, 7, -1, 2)):
        log.append(called(f, data(i), ag.tensor([[at]]), state=[w]))
    return log


@case
def choices_by_value(wrap):
    i = ag.tensor([[0, 1], [1, 2], [0, 0], [2, 2]])

    def f(x):
        return x.quantile(0.3), (x * 60).softmax(-1), x.gather(1, i), x[ag.arange(4), x.argmax(1)], x.sort(1), x ** 2

    return each(wrap(f))


@case
def memory_of_programs(wrap):
    """Results stay as they are, though a program puts what nobody sees into memory of its own."""
    w, v = data(1, 3, 3, requires_grad=True), data(2, 3, 3)

    def f(x):
        a = (x @ w).tanh()
        b = a @ v
        c = b[0] * 2
        return (b * b).sum(0), a.T, c, grad((a * b).sum(), w)[0]

    f = wrap(f)
    return bits([f(data(i)) for i in range(6)])
