"""Optimizers as users write them, in the style of published ones, on our Optimizer and on PyTorch's."""

import copy
import math
import pickle
from collections import defaultdict

import numpy as np
import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu
torch = pytest.importorskip("torch")
STEPS = 6


def adabelief(lib, params):
    class AdaBelief(lib.optim.Optimizer):
        def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
            super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "amsgrad": False})

        def __setstate__(self, state):
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("amsgrad", False)

        def step(self, closure=None):
            loss = None if closure is None else closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None or p.grad.data.is_sparse:
                        continue
                    self.update(p, self.state[p], group)
            return loss

        def update(self, p, state, group):
            grad, (beta1, beta2) = p.grad.data, group["betas"]
            if len(state) == 0:
                state["step"] = 0
                for name in ("exp_avg", "exp_avg_var"):
                    state[name] = lib.zeros_like(p.data, memory_format=lib.preserve_format)
            state["step"] += 1
            average, variance = state["exp_avg"], state["exp_avg_var"]
            average.mul_(beta1).add_(grad, alpha=1 - beta1)
            residual = grad - average
            variance.mul_(beta2).addcmul_(residual, residual, value=1 - beta2)
            root = (variance.add_(group["eps"]).sqrt() / math.sqrt(1 - beta2 ** state["step"])).add_(group["eps"])
            p.data.addcdiv_(average, root, value=-group["lr"] / (1 - beta1 ** state["step"]))

    return AdaBelief(params, lr=0.01)


def lookahead(lib, params):
    class Lookahead(lib.optim.Optimizer):
        """Has the groups and state of another optimizer, and never calls Optimizer.__init__."""

        def __init__(self, optimizer, k=2, alpha=0.5):
            self.optimizer, self.k, self.alpha = optimizer, k, alpha
            self.param_groups, self.state = optimizer.param_groups, defaultdict(dict)
            for group in self.param_groups:
                group["counter"] = 0

        def zero_grad(self):
            self.optimizer.zero_grad()

        def state_dict(self):
            return self.optimizer.state_dict()

        def load_state_dict(self, state_dict):
            self.optimizer.load_state_dict(state_dict)
            self.param_groups = self.optimizer.param_groups

        def step(self, closure=None):
            loss = self.optimizer.step(closure)
            for group in self.param_groups:
                if group["counter"] == 0:
                    for p in group["params"]:
                        slow = self.state[p].setdefault("slow", p.data.clone())
                        slow += (p.data - slow) * self.alpha
                        p.data.copy_(slow)
                group["counter"] = (group["counter"] + 1) % self.k
            return loss

    return Lookahead(lib.optim.Adam(params, lr=0.01))


def losses(lib, make):
    rng = np.random.default_rng(0)
    net = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 1))
    for p in net.parameters():
        p.data = lib.tensor(rng.normal(size=tuple(p.shape)))
    x, optimizer, result = lib.tensor(rng.normal(size=(8, 3))), make(lib, net.parameters()), []
    for step in range(STEPS):
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        result.append(loss.item())
        if step == STEPS // 2:  # a checkpoint in the middle
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return result


@pytest.mark.parametrize("make", [adabelief, lookahead])
def test_a_users_optimizer_takes_pytorchs_steps(make):
    ours = losses(ag, make)
    assert ours[-1] < ours[0]
    np.testing.assert_allclose(ours, losses(torch, make), rtol=1e-9)


COUNTING = ["Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"]


@pytest.mark.parametrize("name", COUNTING)
def test_the_step_count_is_a_tensor(name):
    results = []
    for m in (torch, ag):
        w = m.ones(2, requires_grad=True)
        optimizer, seen = getattr(m.optim, name)([w]), []

        def steps(count, m=m, w=w, optimizer=optimizer, seen=seen):
            for _ in range(count):
                w.grad = m.ones(2)
                optimizer.step()
            step = optimizer.state[w]["step"]
            seen += [isinstance(step, m.Tensor), step.item(), str(step.dtype).removeprefix("torch."), tuple(step.shape)]
            seen += [type(step) is m.Tensor, str(step), step.requires_grad]

        steps(2)
        optimizer.state[w]["step"] += 3  # a user's write
        steps(1)
        other = copy.deepcopy(optimizer).state_dict()["state"][0]["step"]
        optimizer.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
        steps(1)
        results.append((seen, other.item()))
    assert results[1] == results[0]


def test_counts_of_older_state_dicts_are_numbers():
    w = ag.ones(2, requires_grad=True)
    optimizer = ag.optim.Adam([w])
    w.grad = ag.ones(2)
    optimizer.step()
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = 7
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert optimizer.state[w]["step"].item() == 8
    optimizer.state[w]["step"] = 1  # and what a user writes may be one
    optimizer.step()
    assert optimizer.state[w]["step"] == 2


def test_groups_that_are_shared_lack_the_defaults_of_the_wrapper():
    class Wrapper(ag.optim.Optimizer):
        def __init__(self, inner):
            self.inner, self.param_groups, self.state = inner, inner.param_groups, {}
            self.defaults = {"alpha": 0.5, **inner.defaults}

    def made():
        return Wrapper(ag.optim.SGD([ag.ones(2, requires_grad=True)], lr=0.1, momentum=0.9))

    wrapper, other = made(), made()
    wrapper.param_groups[0]["lr"] = 0.25
    other.load_state_dict(wrapper.state_dict())
    assert other.param_groups[0]["lr"] == 0.25
