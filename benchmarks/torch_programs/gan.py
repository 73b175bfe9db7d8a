"""A GAN draws eight Gaussians on a ring; the critic has an R1 penalty, which differentiates its gradient."""

import numpy as np
import torch
import torch.nn as nn


def ring(rng, count):
    angle = rng.integers(0, 8, count) * np.pi / 4
    points = 2 * np.stack([np.cos(angle), np.sin(angle)], 1) + 0.05 * rng.normal(size=(count, 2))
    return points.astype(np.float32)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Linear") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.1)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self, nz=8, width=64):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(nz, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(True),
            nn.Linear(width, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(True), nn.Linear(width, 2),
        )  # fmt: skip

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(2, width), nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(width, width), nn.LeakyReLU(0.2, inplace=True), nn.Linear(width, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, input):
        return self.main(input).view(-1)


def build():
    nets = nn.ModuleDict({"G": Generator(), "D": Discriminator()})
    return nets.apply(weights_init)


def main(steps=1000, state=None, device="cpu", batch=64, nz=8, gamma=0.1):
    rng = np.random.default_rng(16)
    nets = build()
    if state is not None:
        nets.load_state_dict({k: torch.from_numpy(np.asarray(v)) for k, v in state.items()})
    nets.to(device)
    netG, netD = nets["G"], nets["D"]
    criterion = nn.BCELoss()
    real_label = torch.ones(batch, device=device)
    fake_label = torch.zeros(batch, device=device)
    optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for _ in range(steps):
        # Update D: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        real = torch.from_numpy(ring(rng, batch)).to(device).requires_grad_()
        output = netD(real)
        (grad_real,) = torch.autograd.grad(outputs=output.sum(), inputs=real, create_graph=True)
        penalty = grad_real.view(batch, -1).norm(2, dim=1).pow(2).mean()
        errD_real = criterion(output, real_label) + gamma / 2 * penalty
        errD_real.backward()
        noise = torch.from_numpy(rng.normal(size=(batch, nz)).astype(np.float32)).to(device)
        fake = netG(noise)
        errD_fake = criterion(netD(fake.detach()), fake_label)
        errD_fake.backward()
        optimizerD.step()
        # Update G: maximize log(D(G(z)))
        netG.zero_grad()
        errG = criterion(netD(fake), real_label)
        errG.backward()
        optimizerG.step()
        yield (errD_real + errD_fake).item(), errG.item(), penalty.item()
    netG.eval()
    with torch.no_grad():
        radius = netG(torch.from_numpy(rng.normal(size=(256, nz)).astype(np.float32)).to(device)).norm(dim=-1)
    print(f"radius of samples: {radius.mean():.3f} +- {radius.std():.3f}")


if __name__ == "__main__":
    for i, (d, g, _) in enumerate(main()):
        if i % 100 == 0:
            print(f"[{i}] Loss_D: {d:.4f} Loss_G: {g:.4f}")
