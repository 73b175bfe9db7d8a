#!/usr/bin/env bash
# Run the tests and the benchmarks on a CUDA machine, without a network: ci/gpu.sh OUTDIR
#
# Nothing is installed. Needs Python 3.11 or newer with
#   the package's own    numpy, cupy, scipy, ml-dtypes, safetensors, nvidia-ml-py
#   for the tests        pytest, pytest-timeout, hypothesis, scikit-learn, matplotlib, rich, jinja2; tests whose
#                        module among the last five is missing are skipped; pytest-xdist runs them side by side
#   for the benchmarks   torch, jax, jaxlib; a missing one is named in the results
# All ends within nine minutes. OUTDIR receives at most eight files: device.json, log.txt, pytest.xml, summary.json (exit
# code and seconds of every step; 124 is a timeout) and results.tar, the JSON of each benchmark, written anew after each.
# To show those: tar -xf OUTDIR/results.tar -C benchmarks/results && python -m benchmarks.tables --write README.md
set -uo pipefail

OUT=$(mkdir -p "${1:?usage: ci/gpu.sh OUTDIR}" && cd "$1" && pwd) || exit 2
cd "$(dirname "$0")/.." || exit 2
PYTHON=${PYTHON:-python3}
BENCHMARKS=(kernels small_graph unrolled hessian train_mlp optimizer_step saved_memory ops)
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
# JAX would otherwise take three quarters of the GPU's memory at its first call.
export XLA_PYTHON_CLIENT_PREALLOCATE=false

deadline=$((SECONDS + 525)) # 15 seconds are left for killing what hangs
failed=0
rows=""
: >"$OUT/log.txt"
RESULTS=$(mktemp -d) || exit 2
trap 'rm -rf "$RESULTS"' EXIT

# step NAME LIMIT COMMAND...: run it for LIMIT seconds at most, show the end of what it prints.
step() {
  local name=$1 limit=$2 begin=$SECONDS before code=124
  shift 2
  ((limit > deadline - begin)) && limit=$((deadline - begin))
  echo "== $name: $*" >>"$OUT/log.txt"
  before=$(wc -c <"$OUT/log.txt")
  if ((limit > 0)); then
    timeout --kill-after=5 "$limit" "$@" >>"$OUT/log.txt" 2>&1
    code=$?
  else
    echo "not started: no time is left" >>"$OUT/log.txt"
  fi
  ((code == 137)) && code=124 # killed, since it did not end when asked to
  ((code == 0)) || failed=1
  rows+="${rows:+,$'\n'}  \"$name\": {\"exit_code\": $code, \"seconds\": $((SECONDS - begin))}"
  printf '{\n%s\n}\n' "$rows" >"$OUT/summary.json" # after each step, in case this script is cut short
  echo "== $name: exit code $code after $((SECONDS - begin)) s"
  tail -c +$((before + 1)) "$OUT/log.txt" | tail -n 25
}

step device 20 "$PYTHON" - "$OUT/device.json" <<'PY'
import json, platform, sys
import pynvml as nv

nv.nvmlInit()
gpu = nv.nvmlDeviceGetHandleByIndex(0)


def ask(question, *args):
    try:
        return question(*args)
    except nv.NVMLError as error:  # a virtual machine may hide clocks: say so in place of the value
        return f"not available: {error}"


cuda = nv.nvmlSystemGetCudaDriverVersion()
clocks = {"sm": nv.NVML_CLOCK_SM, "memory": nv.NVML_CLOCK_MEM, "graphics": nv.NVML_CLOCK_GRAPHICS}
facts = {
    "name": ask(nv.nvmlDeviceGetName, gpu),
    "memory_bytes": nv.nvmlDeviceGetMemoryInfo(gpu).total,
    "driver": ask(nv.nvmlSystemGetDriverVersion),
    "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
    "clock_mhz": {k: ask(nv.nvmlDeviceGetClockInfo, gpu, c) for k, c in clocks.items()},
    "max_clock_mhz": {k: ask(nv.nvmlDeviceGetMaxClockInfo, gpu, c) for k, c in clocks.items()},
    "power_limit_mw": ask(nv.nvmlDeviceGetPowerManagementLimit, gpu),
    "python": platform.python_version(),
}
print(json.dumps(facts, indent=2))
with open(sys.argv[1], "w") as file:
    json.dump(facts, file, indent=2)
PY
# CuPy compiles each of its kernels at its first use, for seconds in all: many processes do that side by side.
workers=()
"$PYTHON" -c 'import xdist' 2>/dev/null && workers=(-n 8)
step pytest 270 "$PYTHON" -m pytest --device cuda "${workers[@]}" -p no:cacheprovider --junitxml "$OUT/pytest.xml"

left=$((${#BENCHMARKS[@]} + 2))
for name in "${BENCHMARKS[@]}"; do
  # An even share of what is left, two for the longest: a quick step leaves its time to the later ones.
  share=1
  [[ $name == kernels || $name == saved_memory ]] && share=2
  step "$name" $(((deadline - SECONDS) * share / left)) "$PYTHON" -m "benchmarks.$name" --device cuda \
    --peers torch,torch.func,jax --json "$RESULTS/cuda-$name.json"
  # A whole archive is there at any time: this script may be cut short while it writes the next.
  compgen -G "$RESULTS/*.json" >/dev/null && (cd "$RESULTS" && tar -cf "$OUT/part" -- *.json) && mv "$OUT/part" "$OUT/results.tar"
  left=$((left - share))
done

exit "$failed"
