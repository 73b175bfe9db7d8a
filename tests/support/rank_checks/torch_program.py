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
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD  # noqa: E402, F401
from torch.distributed.algorithms.join import Join  # noqa: E402
from torch.distributed.elastic.multiprocessing.errors import record  # noqa: E402
from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

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


@record
def classified(rank, world_size):
    """As PyTorch's example for ImageNet: batch norm over all ranks, a sampler, loss scaling, metrics of all ranks."""
    start(rank, world_size)
    torch.manual_seed(0)
    device = torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(net).to(device))
    inputs = torch.randn(61, 6, generator=torch.Generator().manual_seed(1)).cpu()
    examples = TensorDataset(inputs, inputs[:, :3].argmax(1))
    sampler = DistributedSampler(examples)
    loader = DataLoader(examples, batch_size=8, shuffle=False, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    scaler = torch.amp.GradScaler(device.type)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for images, target in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), target.to(device))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    model.eval()
    with torch.no_grad():
        right = (model(inputs.to(device)).argmax(1).cpu() == examples.tensors[1]).float()
    total = torch.tensor([right[rank::world_size].sum(), len(right[rank::world_size])], device=device)
    dist.all_reduce(total, dist.ReduceOp.SUM)
    assert total[1].item() == 61
    assert total[0].item() / 61 > 0.8, total
    dist.destroy_process_group()


def uneven(rank, world_size):
    """As PyTorch's tutorials on uneven inputs and on sharded optimizers, for two epochs."""
    start(rank, world_size)
    model, device = wrapped(rank)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    for _ in range(2):
        with Join([model, optimizer]):
            for _ in range(2 + rank):
                model(torch.ones(3, 8)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    total = torch.tensor([sum(p.detach().sum().item() for p in model.parameters())], device=device)
    every = [torch.zeros_like(total) for _ in range(world_size)]
    dist.all_gather(every, total)
    assert all(torch.equal(one, total) for one in every)
    dist.destroy_process_group()


if __name__ == "__main__":
    for function in (plain, resumed, classified, uneven):
        mp.spawn(function, args=(2,), nprocs=2, join=True)
