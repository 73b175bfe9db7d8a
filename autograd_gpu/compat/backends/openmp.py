"""OpenMP: never used here."""


def is_available() -> bool:
    """Whether OpenMP is used: never.

    >>> ag.backends.openmp.is_available()
    False
    """
    return False


__all__ = ["is_available"]
