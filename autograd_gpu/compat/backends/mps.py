"""Apple's GPUs: never used here."""


def is_available() -> bool:
    """Whether Apple's GPUs is used: never.

    >>> ag.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """Whether Apple's GPUs can be used: never.

    >>> ag.backends.mps.is_built()
    False
    """
    return False


__all__ = ["is_available", "is_built"]
