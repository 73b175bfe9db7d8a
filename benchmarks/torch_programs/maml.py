"""MAML: a start from which a few gradient steps fit a sine, with torch.func over all tasks at once (Finn et al.)."""

import numpy as np
import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

INNER_STEPS, INNER_RATE = 2, 0.05


def build():
    return nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))


def tasks(rng, count, shots):
    """Sines of random amplitude and phase: the points to learn from, and those to be judged by."""
    amplitude = rng.uniform(0.1, 5.0, (count, 1, 1))
    phase = rng.uniform(0.0, np.pi, (count, 1, 1))
    x = rng.uniform(-5.0, 5.0, (2, count, shots, 1))
    y = amplitude * np.sin(x + phase)
    return [torch.tensor(a, dtype=torch.float) for a in (x[0], y[0], x[1], y[1])]


def main(steps=1000, state=None, device="cpu", count=25, shots=10):
    rng = np.random.default_rng(7)
    net = build()
    if state is not None:
        net.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    net.to(device)
    params = dict(net.named_parameters())
    opt = torch.optim.Adam(params.values(), lr=1e-3)

    def compute_loss(parameters, x, y):
        return F.mse_loss(functional_call(net, parameters, (x,)), y)

    def adapted_loss(x1, y1, x2, y2):
        """The loss on new points after the inner steps, which are differentiated through."""
        fast = params
        for _ in range(INNER_STEPS):
            grads = grad(compute_loss)(fast, x1, y1)
            fast = {k: fast[k] - INNER_RATE * g for k, g in grads.items()}
        return compute_loss(fast, x2, y2)

    for _ in range(steps):
        batch = [a.to(device) for a in tasks(rng, count, shots)]
        with torch.no_grad():
            before = compute_loss(params, batch[2], batch[3])
        loss = vmap(adapted_loss)(*batch).mean(0)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        yield loss.item(), before.item()


if __name__ == "__main__":
    for step, (after, before) in enumerate(main()):
        if step % 100 == 0:
            print(f"{step}: loss {before:.3f}, after {INNER_STEPS} steps {after:.3f}")
