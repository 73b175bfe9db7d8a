"""Intel's oneDNN: never used here."""


enabled = False  # can be set, without effect


def is_available() -> bool:
    """Whether Intel's oneDNN is used: never.

    >>> ag.backends.mkldnn.is_available()
    False
    """
    return False


__all__ = ["enabled", "is_available"]
