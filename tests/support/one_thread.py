"""Products on one thread, for tests whose products are tiny."""

import contextlib


@contextlib.contextmanager
def one_thread():
    """Limits the libraries that are installed: waiting for a second thread on a busy machine takes minutes."""
    limits = contextlib.nullcontext()
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401  what is not loaded yet is not limited
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_limits

        limits = threadpool_limits(1)
    with limits:
        yield
