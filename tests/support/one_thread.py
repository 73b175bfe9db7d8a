"""Products on one thread, for tests whose products are tiny."""

import contextlib


@contextlib.contextmanager
def one_thread():
    """Limits the libraries that are installed: waiting for a second thread on a busy machine takes minutes.

    PyTorch is told so itself: at its first loop over threads it asks for as many as there are cores, whatever OpenMP
    was limited to before.
    """
    with contextlib.ExitStack() as undo:
        with contextlib.suppress(ImportError):
            import torch

            undo.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        with contextlib.suppress(ImportError):
            from threadpoolctl import threadpool_limits

            undo.enter_context(threadpool_limits(1))
        yield
