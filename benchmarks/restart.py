"""A process that starts again without the variables that hold libraries back."""

from __future__ import annotations

import os
import sys

# Each makes a library take the processor for another one, by its instructions or, in OPENBLAS_L2_SIZE, by its cache:
# what is then measured is the variable.
HOLDING_BACK = (
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NPY_DISABLE_CPU_FEATURES", "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY",
)  # fmt: skip


def restart_unhindered() -> None:
    """Runs this command line again, in this process's place, if one of the variables is set; and says so."""
    held = {name: os.environ[name] for name in HOLDING_BACK if os.environ.get(name)}
    if not held:
        return
    listed = " ".join([f"{name}={value}" for name, value in held.items()])
    print(f"Starting again without {listed}, to measure what this processor gives.", file=sys.stderr, flush=True)
    free = {name: value for name, value in os.environ.items() if name not in held}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], free)
