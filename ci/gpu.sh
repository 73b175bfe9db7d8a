#!/usr/bin/env bash
# Run the checks, the tests and the benchmarks on a CUDA machine, without a network, in stages:
#
#     ci/gpu.sh OUTDIR [--from DIR] [--plan] [STAGE...]
#
#   device     10 s   the GPU, and the versions of what is installed
#   probe      60 s   benchmarks/probe: one line for each check; they answer questions of docs/gpu-questions.md
#   capture    45 s   tests of CUDA graphs
#   core       90 s   tests of the kernels, of the stand-in's truth, of cuBLAS, streams, quantization, offload and norms
#   bench     100 s   benchmarks beside PyTorch and JAX, second derivatives first
#   ops       150 s   tests of the op table
#   rest              all other tests that a GPU can run, for what is left of 540 s
#   sanitizer         compute-sanitizer (memcheck, racecheck) over every kernel instance; runs only when it is named
#
# Without stages all but the last run, for 540 s at most. The stage that is named last takes what is left of that, unless
# it is device or probe; --plan prints who gets how much, and runs nothing. Each ends by itself before its limit; what
# does not is interrupted, and killed a few seconds later. A run into an OUTDIR with results replaces those of its stages
# and keeps the others.
#
# --from DIR, an earlier OUTDIR, brings what that holds: OUTDIR begins as its copy where it has no results of its own,
# CuPy finds the kernels that were compiled there, and tests that passed there are left out.
#
# OUTDIR receives at most eight files, each below 16 MiB and whole at any time:
#
#   summary.json           exit code, outcome, seconds and counts of every stage (124: it did not end by itself in time)
#   log.txt                what the stages print
#   device.json            of stage device
#   probe.jsonl            a line for each check of stage probe
#   failures.jsonl         a line for each test that failed, with its last 40 lines
#   results.tar            JSON of each benchmark, outcome of each test, JUnit's XML
#   kernels-1.zip, -2.zip  CuPy's compiled kernels, those used last if not all fit
#
# To show the benchmarks:
#   tar -xf OUTDIR/results.tar -C benchmarks/results --wildcards 'cuda-*.json' && python -m benchmarks.tables --write
#
# Nothing is installed. Stages run by $PYTHON (python3), Python 3.11 or newer with
#   the package's own    numpy, cupy, scipy, ml-dtypes, nvidia-ml-py
#   for the tests        pytest, pytest-timeout, hypothesis; pytest-xdist runs them side by side; tests whose module
#                        among scikit-learn, matplotlib, rich, jinja2, torch, safetensors is missing are skipped
#   for the benchmarks   torch, jax, jaxlib; a missing one is named in the results
# $GPU_SH_PYTHON (python3) runs this script and needs nothing else. $GPU_SH_SCALE multiplies all limits.
set -euo pipefail

export PYTHONPATH
PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)${PYTHONPATH:+:$PYTHONPATH}
exec "${GPU_SH_PYTHON:-python3}" -P -m ci.gpu "$@"
