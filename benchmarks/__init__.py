"""Workload benchmarks against peers, the demo, and examples.

Each workload is a module that runs alone, and `python -m benchmarks` runs them all:

    python -m benchmarks.hessian --device cpu --peers torch,torch.func,jax --json out.json
    python -m benchmarks --device cpu          # writes benchmarks/results/cpu-<name>.json
    python -m benchmarks.tables --write
    python -m benchmarks.probe --lines out.jsonl    # what only a GPU can answer, check by check
    python -m benchmarks.demo                  # digits, terrain, second derivatives, memory: out/report.html
    python -m benchmarks.program_runner siren  # a program written for PyTorch, unchanged but for its imports
    python -m benchmarks.examples.burgers      # a differential equation, drawn in out/burgers.png
    python -m benchmarks.examples.learned_rate # learning rates are learned, drawn in out/learned_rate.png
    python -m benchmarks.examples.potential    # energies, forces and phonons of copper, drawn in out/potential.png

The variables below must be set before NumPy, JAX or CuPy is loaded, hence here.
"""

import os

# OpenBLAS workers spin for about 25 ms after a threaded product and take a core from whatever runs
# next: the same product measured 173 ms alone and 207 ms after another one. 2**20 cycles are 0.3 ms.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
# JAX otherwise takes three quarters of the GPU's memory from its neighbours.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
