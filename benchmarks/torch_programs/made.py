"""MADE: a masked autoencoder as an autoregressive density of binary images (Germain et al., 2015)."""

from itertools import pairwise

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset


class NumpySampler(Sampler):
    """A new order in each epoch, drawn by NumPy."""

    def __init__(self, data, seed):
        self.size, self.rng = len(data), np.random.default_rng(seed)

    def __iter__(self):
        return iter(self.rng.permutation(self.size).tolist())

    def __len__(self):
        return self.size


class MaskedLinear(nn.Linear):
    """A Linear with a configurable mask on the weights."""

    def __init__(self, in_features, out_features, bias=True):
        super().__init__(in_features, out_features, bias)
        self.register_buffer("mask", torch.ones(out_features, in_features))

    def set_mask(self, mask):
        self.mask.data.copy_(torch.from_numpy(mask.astype(np.uint8).T))

    def forward(self, input):
        return F.linear(input, self.mask * self.weight, self.bias)


class MADE(nn.Module):
    def __init__(self, nin, hidden_sizes, seed=0):
        super().__init__()
        self.nin = nin
        net, sizes = [], [nin, *hidden_sizes, nin]
        for h0, h1 in pairwise(sizes):
            net.extend([MaskedLinear(h0, h1), nn.ReLU()])
        net.pop()  # no ReLU at the output
        self.net = nn.Sequential(*net)
        self.update_masks(hidden_sizes, np.random.RandomState(seed))

    def update_masks(self, hidden_sizes, rng):
        m = [np.arange(self.nin)]
        for size in hidden_sizes:
            m.append(rng.randint(m[-1].min(), self.nin - 1, size=size))
        masks = [a[:, None] <= b[None, :] for a, b in pairwise(m)]
        masks.append(m[-1][:, None] < m[0][None, :])
        for layer, mask in zip([x for x in self.net.modules() if isinstance(x, MaskedLinear)], masks, strict=True):
            layer.set_mask(mask)

    def forward(self, x):
        return self.net(x)


def bars(count, side=8, seed=4):
    """Images of a few horizontal or vertical bars."""
    rng = np.random.default_rng(seed)
    lines = rng.random((count, side)) < 0.3
    flat = rng.random(count) < 0.5
    images = np.where(flat[:, None, None], lines[:, None, :], lines[:, :, None])
    images = np.broadcast_to(images, (count, side, side))
    return images.reshape(count, -1).astype(np.float32)


def build():
    return MADE(64, [128, 128])


def main(steps=300, state=None, device="cpu"):
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
    model.to(device)
    data = TensorDataset(torch.from_numpy(bars(640)))
    loader = DataLoader(data, batch_size=64, sampler=NumpySampler(data, 5), drop_last=True)
    opt = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, step_size=10, gamma=0.9)
    done = 0
    while done < steps:
        for (xb,) in loader:
            xb = xb.to(device)
            loss = F.binary_cross_entropy_with_logits(model(xb), xb, reduction="sum") / len(xb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            done += 1
            yield loss.item()
            if done == steps:
                break
        scheduler.step()


if __name__ == "__main__":
    for step, loss in enumerate(main()):
        if step % 30 == 0:
            print(f"{step}: negative log likelihood {loss:.3f} nats")
