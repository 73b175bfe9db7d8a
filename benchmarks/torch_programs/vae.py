"""A variational autoencoder of small images (Kingma and Welling, 2014), written with torch.distributions."""

import numpy as np
import torch
from torch import nn, optim
from torch.distributions import Bernoulli, Independent, Normal, kl_divergence
from torch.utils.data import DataLoader, Dataset, Subset


class Blobs(Dataset):
    """Images of 10 x 10 pixels with one blob each."""

    def __init__(self, count=512, side=10, seed=14):
        rng = np.random.default_rng(seed)
        axis = np.arange(side)
        cx, cy = rng.uniform(2, side - 3, (2, count, 1, 1))
        size = rng.uniform(1.0, 2.0, (count, 1, 1))
        images = np.exp(-((axis[None, :, None] - cx) ** 2 + (axis - cy) ** 2) / size**2)
        self.images = (images > 0.4).astype("float32")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], i


class VAE(nn.Module):
    def __init__(self, pixels=100, hidden=128, latent=8):
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(pixels, hidden), nn.ReLU())
        self.fc_mu = nn.Linear(hidden, latent)
        self.fc_logvar = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def encode(self, x):
        h = self.encoder(x)
        return Independent(Normal(self.fc_mu(h), torch.exp(0.5 * self.fc_logvar(h))), 1)

    def decode(self, z):
        return Independent(Bernoulli(logits=self.decoder(z)), 1)

    def forward(self, x, noise):
        """The evidence lower bound in two parts, per image."""
        q = self.encode(x)
        z = q.mean + q.stddev * noise
        prior = Independent(Normal(torch.zeros_like(z), torch.ones_like(z)), 1)
        return self.decode(z).log_prob(x.flatten(1)), kl_divergence(q, prior)


def build():
    return VAE()


def main(steps=400, state=None, device="cpu", beta=1.0):
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device)
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)
    data, rng, done = Blobs(), np.random.default_rng(15), 0
    while done < steps:
        shuffled = Subset(data, rng.permutation(len(data)).tolist())
        for images, _ in DataLoader(shuffled, batch_size=64):
            noise = torch.from_numpy(rng.standard_normal((len(images), model.latent), dtype=np.float32))
            log_likelihood, kl = model(images.to(device), noise.to(device))
            loss = (beta * kl - log_likelihood).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=100.0)
            optimizer.step()
            done += 1
            yield loss.item(), kl.mean().item()
            if done == steps:
                break
    model.eval()
    with torch.no_grad():
        image = model.decode(torch.zeros(1, model.latent).to(device)).mean
    print("pixels of an image from the prior:", image.sum().item())


if __name__ == "__main__":
    for step, (loss, kl) in enumerate(main()):
        if step % 40 == 0:
            print(f"{step}: loss {loss:.3f}, of which KL {kl:.3f}")
