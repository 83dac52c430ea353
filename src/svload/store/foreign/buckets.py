"""`model.columns.bucket` of many values at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def buckets_of(values_ns: NDArray[Any]) -> NDArray[np.uint32]:
    """The histogram bucket of each value in ns."""
    values = np.maximum(values_ns, 0)
    exponent = np.frexp(np.maximum(values, 1).astype(np.float64))[1] - 1
    shifted = (exponent - 6) * 128 + (values >> np.maximum(exponent - 7, 0)) - 128
    found: NDArray[np.uint32] = np.where(values < 128, values, shifted).astype(np.uint32)
    return found
