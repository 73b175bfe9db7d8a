"""A small transformer encoder learns to reverse sequences of digits."""

import math

import numpy as np
import torch
import torch.nn as nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer
from torch.optim.lr_scheduler import _LRScheduler


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.0, max_len=64):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class Reverser(nn.Module):
    def __init__(self, ntoken=10, d_model=32, nhead=4, d_hid=64, nlayers=2):
        super().__init__()
        self.embedding = nn.Embedding(ntoken, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        layer = TransformerEncoderLayer(d_model, nhead, d_hid, dropout=0.0, batch_first=True)
        self.transformer_encoder = TransformerEncoder(layer, nlayers, enable_nested_tensor=False)
        self.decoder = nn.Linear(d_model, ntoken)
        self.d_model = d_model

    def forward(self, src, mask=None):
        x = self.pos_encoder(self.embedding(src) * math.sqrt(self.d_model))
        return self.decoder(self.transformer_encoder(x, src_key_padding_mask=mask))


class InverseSquareRoot(_LRScheduler):
    """A linear warm-up, then a decay by the square root of the step."""

    def __init__(self, optimizer, warmup, last_epoch=-1):
        self.warmup = warmup
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        step = (self.last_epoch + 1) / self.warmup
        return [base_lr * min(step, step**-0.5) for base_lr in self.base_lrs]


def build():
    return Reverser()


def main(steps=400, state=None, device="cpu", batch=32, length=12):
    rng = np.random.default_rng(24)
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device).train()
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        (no_decay if p.ndim < 2 or name.endswith("bias") else decay).append(p)
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}], lr=3e-3
    )
    scheduler = InverseSquareRoot(optimizer, warmup=20)
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    for _ in range(steps):
        digits = torch.from_numpy(rng.integers(0, 10, (batch, length))).to(device)
        lengths = torch.from_numpy(rng.integers(length // 2, length + 1, batch)).to(device)
        padding = torch.arange(length, device=device)[None, :] >= lengths[:, None]
        index = (lengths[:, None] - 1 - torch.arange(length, device=device)).clamp(min=0)
        targets = digits.gather(1, index).masked_fill(padding, -100)
        logits = model(digits, padding)
        loss = criterion(logits.view(-1, 10), targets.view(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        correct = ((logits.argmax(-1) == targets) & ~padding).sum().item()
        yield loss.item(), correct / (~padding).sum().item()


if __name__ == "__main__":
    for step, (loss, accuracy) in enumerate(main()):
        if step % 20 == 0:
            print(f"{step}: loss {loss:5.3f}, accuracy {accuracy:.3f}, ppl {math.exp(loss):8.2f}")
