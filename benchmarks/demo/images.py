"""Arrays as images inside a page: data URIs, and the colours of maps."""

from __future__ import annotations

import base64
import io
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LightSource, to_hex
from PIL import Image

from .story import Scale

LIGHT = LightSource(azdeg=315, altdeg=45)  # from the north-west, as on printed maps
UNKNOWN = 0.75  # the grey of what has no value


def png(grey: np.ndarray) -> str:
    """Grey values in [0, 1], ink on paper, without loss."""
    return _uri(np.uint8(255 * (1 - grey)), "png")


class Colours(NamedTuple):
    """What a map's values look like: a colour map of matplotlib, from `first` of it on, over a span of values."""

    name: str
    low: float
    high: float
    unit: str
    first: float = 0.0

    def of(self, values: np.ndarray) -> np.ndarray:
        """RGB; NaN is grey."""
        share = np.clip((values - self.low) / (self.high - self.low), 0, 1)
        rgb: np.ndarray = colormaps[self.name](self.first + (1 - self.first) * np.nan_to_num(share))[..., :3]
        rgb[np.isnan(values)] = UNKNOWN
        return rgb

    def legend(self, steps: int = 9) -> Scale:
        """From the lowest value to the highest."""
        colours = [to_hex(colour) for colour in self.of(np.linspace(self.low, self.high, steps))]
        return Scale(colours, f"{self.low:.0f}{self.unit}", f"{self.high:.0f}{self.unit}")


def shaded(values: np.ndarray, colours: Colours, height: np.ndarray, cell: tuple[float, float]) -> str:
    """A map, lit as the ground with this height lies, three times as steep; `cell` is (dx, dy)."""
    light = LIGHT.hillshade(height, vert_exag=3, dx=cell[0], dy=cell[1])[..., None]
    return _uri(np.uint8(255 * np.clip(colours.of(values) * (0.45 + 0.75 * light), 0, 1)), "jpeg")


def flat(values: np.ndarray, colours: Colours) -> str:
    """A map without light, for differences."""
    return _uri(np.uint8(255 * colours.of(values)), "jpeg")


def _uri(pixels: np.ndarray, kind: str) -> str:
    stream = io.BytesIO()
    options: dict[str, Any] = {"quality": 88} if kind == "jpeg" else {"optimize": True}
    Image.fromarray(pixels).save(stream, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"
