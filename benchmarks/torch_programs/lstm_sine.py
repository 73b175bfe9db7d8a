"""An LSTM learns to continue sine waves."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim


class Sequence(nn.Module):
    def __init__(self, hidden=32, layers=2):
        super().__init__()
        self.lstm = nn.LSTM(input_size=1, hidden_size=hidden, num_layers=layers, batch_first=True)
        self.linear = nn.Linear(hidden, 1)

    def forward(self, x, future=0):
        out, (h, c) = self.lstm(x)
        outputs = self.linear(out)
        last, more = outputs[:, -1:], []
        for _ in range(future):  # its own output is its next input
            out, (h, c) = self.lstm(last, (h, c))
            last = self.linear(out)
            more.append(last)
        return torch.cat([outputs, *more], dim=1)


def waves(count=16, length=40, seed=21):
    rng = np.random.default_rng(seed)
    phase, speed = rng.uniform(0, 2 * np.pi, (count, 1)), rng.uniform(0.2, 0.5, (count, 1))
    return np.sin(phase + speed * np.arange(length)).astype("float32")[..., None]


def build():
    return Sequence()


def main(steps=300, state=None, device="cpu"):
    data = torch.from_numpy(waves()).to(device)
    inputs, target = data[:, :-1], data[:, 1:]
    seq = build()
    if state is not None:
        seq.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
    seq.to(device)
    criterion = nn.MSELoss()
    optimizer = optim.Adam(seq.parameters(), lr=1e-2)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=20)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = criterion(seq(inputs), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(seq.parameters(), 1.0)
        optimizer.step()
        scheduler.step(loss.detach())
        yield loss.item()
    with torch.no_grad():
        pred = seq(inputs[:1], future=5)
        print("continued:", pred[0, -5:, 0].cpu().numpy().round(3).tolist())


if __name__ == "__main__":
    for step, loss in enumerate(main()):
        if step % 20 == 0:
            print("STEP:", step, "loss:", loss)
