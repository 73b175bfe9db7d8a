"""A program for PyTorch, in the manner of its tutorials, unchanged but for the first two lines: python FILE FOLDER.

It starts its ranks by spawn, and has a model on the GPU with the number of each rank, or on the CPU without one.
"""

import autograd_gpu

autograd_gpu.as_torch()

import os  # noqa: E402
import sys  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

BACKEND, FOLDER = os.environ.get("PROGRAM_BACKEND", "gloo"), sys.argv[1]


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.activation = nn.ReLU()
        self.output = nn.Linear(16, 2)

    def forward(self, x):
        return self.output(self.activation(self.hidden(x)))


def start(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29501")
    dist.init_process_group(BACKEND, rank=rank, world_size=world_size)


def wrapped(rank):
    if torch.cuda.is_available():
        return DDP(Regression().to(rank), device_ids=[rank]), rank
    return DDP(Regression()), "cpu"


def train(model, device, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = nn.MSELoss()
    for _ in range(steps):
        optimizer.zero_grad()
        prediction = model(torch.randn(32, 8))
        criterion(prediction, torch.randn(32, 2).to(device)).backward()
        optimizer.step()


def plain(rank, world_size):
    start(rank, world_size)
    model, device = wrapped(rank)
    train(model, device, 3)
    total = torch.tensor([sum(p.detach().sum().item() for p in model.parameters())], device=device)
    every = [torch.zeros_like(total) for _ in range(world_size)]
    dist.all_gather(every, total)
    assert all(torch.equal(one, total) for one in every)
    dist.destroy_process_group()


def resumed(rank, world_size):
    start(rank, world_size)
    path = os.path.join(FOLDER, "model.pt")
    model, device = wrapped(rank)
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(torch.load(path, map_location={"cuda:0": f"cuda:{rank}"}))
    train(model, device, 1)
    print(f"rank {rank} has resumed", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    for function in (plain, resumed):
        mp.spawn(function, args=(2,), nprocs=2, join=True)
