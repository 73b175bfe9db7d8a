"""A program that is killed or interrupted: trains and writes checkpoints until it is ended. python training.py PATH"""

import sys

import autograd_gpu as ag
from autograd_gpu import distributed as dist

dist.init_process_group(timeout=5)
path, rank = sys.argv[1], dist.get_rank()
net = ag.nn.parallel.DistributedDataParallel(ag.nn.Sequential(ag.nn.Linear(50, 200), ag.nn.Linear(200, 1)))
for step in range(100000):
    net(ag.randn(16, 50)).square().mean().backward()
    dist.all_reduce(ag.ones(40000))
    if rank == 0:
        ag.save({"step": step, "weights": ag.full((50000,), float(step)), "last": ag.tensor([step])}, path)
    if step == 1:
        print("ready", flush=True)
