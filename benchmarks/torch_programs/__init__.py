"""Programs written for PyTorch, as strangers publish them; benchmarks/program_runner.py runs them under both libraries.

Each has `main(steps, state, device)`, a generator of one tuple of numbers per step, where `state` holds the initial
weights as NumPy arrays. Data and noise come from NumPy, so that both libraries see the same.
"""
