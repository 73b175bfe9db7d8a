"""What only a GPU can answer, asked in a minute: python -m benchmarks.probe --lines FILE [--seconds 60].

Each check is a function under a name (table.py) and leaves one JSON line in FILE when it has ended:

    check      its name; `questions` are those of docs/gpu-questions.md that it answers
    ok         whether everything is as the project expects it
    emulated   whether the stand-in of tests/support/cuda_emu took the GPU's place: then nothing here is a GPU
               result, and what depends on time is not judged
    seconds    how long it took
    error      what it ended with, if it did, and `lines`, the end of the traceback
    ...        what was found

A check that hangs, crashes or breaks the device is lost alone (benchmarks/relay.py).
"""
