"""What ci/gpu.sh runs: stages within their limits, and an OUTDIR that is whole at any time.

`python -m ci.gpu` needs the standard library alone. The modules device, suite and sanitizer are stages: $PYTHON runs
them in processes of their own.
"""
