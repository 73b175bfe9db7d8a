"""A deep set with attention pooling finds the maximum of sets of different sizes (Zaheer et al., 2017)."""

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sets(Dataset):
    def __init__(self, count=256, seed=28):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(3, 9, count)
        self.sets = [torch.from_numpy(rng.uniform(0, 1, (size, 1)).astype(np.float32)) for size in sizes]

    def __len__(self):
        return len(self.sets)

    def __getitem__(self, idx):
        return {"items": self.sets[idx], "target": self.sets[idx].max().item()}


def collate(samples):
    items = pad_sequence([s["items"] for s in samples], batch_first=True)
    mask = pad_sequence([torch.ones(len(s["items"]), dtype=torch.bool) for s in samples], batch_first=True)
    return {"items": items, "mask": mask, "target": torch.tensor([s["target"] for s in samples])}


class DeepSet(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(1, dim), nn.ELU(), nn.Linear(dim, dim))
        self.seed = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.pool = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.rho = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ELU(), nn.Linear(dim, 1))

    def forward(self, items, mask):
        h = self.phi(items)
        query = self.seed.repeat(len(items), 1, 1)
        pooled, weights = self.pool(query, h, h, key_padding_mask=~mask)
        return self.rho(pooled.squeeze(1)).squeeze(-1), weights


def build():
    return DeepSet()


def main(steps=300, state=None, device="cpu"):
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device)
    data = Sets()
    train, test = data, torch.utils.data.Subset(data, range(32))
    loader = DataLoader(train, batch_size=32, collate_fn=collate, shuffle=False)
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=10),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(steps, 20)),
        ],
        milestones=[10],
    )
    done = 0
    while done < steps:
        for batch in loader:
            batch = {key: value.to(device) for key, value in batch.items()}
            prediction, _ = model(batch["items"], batch["mask"])
            loss = nn.functional.smooth_l1_loss(prediction, batch["target"], beta=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            yield loss.item()
            if done == steps:
                break
    model.eval()
    with torch.inference_mode():
        batch = collate([test[i] for i in range(len(test))])
        _, weights = model(batch["items"].to(device), batch["mask"].to(device))
    print("attention on the padding:", weights.squeeze(1)[~batch["mask"].to(device)].abs().max().item())


if __name__ == "__main__":
    for step, loss in enumerate(main()):
        if step % 30 == 0:
            print(f"{step}: {loss:.5f}")
