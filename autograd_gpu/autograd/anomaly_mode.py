"""detect_anomaly and set_detect_anomaly: finding the forward operation behind an error in backward."""

from __future__ import annotations

import warnings

from ..config import ANOMALY, MODES
from ..core.history.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from ..core.thread_state import THREAD


class _Anomaly:
    """Puts back what was on before. No call stands between the changes: an interrupt behind it would leave half."""

    _before: tuple[bool, bool]

    def __exit__(self, *exc: object) -> None:
        thread = THREAD.state
        thread.anomaly, thread.check_nan = self._before
        MODES.bits = MODES.bits | ANOMALY if thread.anomaly else MODES.bits & ~ANOMALY


class detect_anomaly(_Anomaly):
    """Context manager: an error in backward shows where the failing node was made, and NaN is an error.

    Forward and backward should both be inside. Each node then keeps the traceback of its forward operation, in
    `node.metadata["traceback_"]`; it is added as a note to whatever is raised while the node runs, in a double backward
    with that of the node that it was made by (`"parent_"`). With `check_nan` a node that gives NaN raises
    RuntimeError, naming the output. This is slow, and for debugging only. Thread-local.

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
    """Turns `detect_anomaly` on or off at once; as a context manager it is undone at the end. No warning.

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
        """Everything is done by __init__."""
