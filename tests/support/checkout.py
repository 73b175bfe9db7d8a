"""Where things lie in a checkout."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
SUPPORT = TESTS / "support"
EMULATOR = SUPPORT / "cuda_emu"
STAND_IN = EMULATOR / "standin"
