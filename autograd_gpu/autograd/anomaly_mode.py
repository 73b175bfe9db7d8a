"""detect_anomaly and set_detect_anomaly: trace an error in backward to its forward operation."""

from __future__ import annotations

import warnings

from ..core.history.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from ..core.thread_state import THREAD
from ..modes import ANOMALY, MODES


class _Anomaly:
    """Restores the previous mode at exit. Makes no call between the changes, so that an interrupt cannot split them."""

    _before: tuple[bool, bool]

    def __exit__(self, *exc: object) -> None:
        thread = THREAD.state
        thread.anomaly, thread.check_nan = self._before
        MODES.bits = MODES.bits | ANOMALY if thread.anomaly else MODES.bits & ~ANOMALY


class detect_anomaly(_Anomaly):
    """Context manager: an error in backward shows the traceback of the forward operation, and NaN is an error.

    Run forward and backward inside. Each node stores the traceback of its forward operation in
    `node.metadata["traceback_"]`, which is added as a note to an exception raised while the node runs; in a double
    backward together with that of the node that created it (`"parent_"`). With `check_nan` a node that returns NaN
    raises RuntimeError with the output's number. Slow, for debugging only. Thread-local.

    >>> import warnings
    >>> x = ag.tensor([-1.0], requires_grad=True)
    >>> with warnings.catch_warnings(action="ignore"), ag.autograd.detect_anomaly():  # it warns that it is slow
    ...     try:
    ...         x.sqrt().backward()
    ...     except RuntimeError as error:
    ...         print(error)
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = bool(check_nan)
        self._before = is_anomaly_enabled(), is_anomaly_check_nan_enabled()
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
                      "enabled for debugging.", stacklevel=2)

    def __enter__(self) -> None:
        thread = THREAD.state  # no call from here on, as below
        thread.anomaly, thread.check_nan = True, self.check_nan
        MODES.bits |= ANOMALY


class set_detect_anomaly(_Anomaly):
    """Turns `detect_anomaly` on or off at the call, without a warning; as a context manager, restores it at exit.

    >>> with ag.autograd.set_detect_anomaly(True):
    ...     ag.is_anomaly_enabled()
    True
    >>> ag.is_anomaly_enabled()
    False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = is_anomaly_enabled(), is_anomaly_check_nan_enabled()
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        """Does nothing: __init__ sets the mode."""
