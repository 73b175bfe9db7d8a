"""Intel's MKL: never used here."""


def is_available() -> bool:
    """Whether Intel's MKL is used: never.

    >>> ag.backends.mkl.is_available()
    False
    """
    return False


__all__ = ["is_available"]
