"""Pictures in analysis.json: a sheet with rows and columns, as one PNG in base64."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor


def sheet(cells: Tensor) -> str:
    """Encode pictures, (rows, columns, channels, height, width) with values from -1 to 1. Each is followed by a
    transparent line of one pixel, to the right and below; a picture of NaN leaves its cell empty."""
    filled = ~cells.isnan().flatten(2).all(2).cpu()
    values = ((cells.nan_to_num().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu()
    rows, columns, channels, height, width = values.shape
    sheet = torch.zeros(rows, columns, 4, height + 1, width + 1, dtype=torch.uint8)
    sheet[..., :3, :height, :width] = values if channels == 3 else values[:, :, :1]
    sheet[..., 3, :height, :width] = 255
    sheet[~filled] = 0
    pixels = sheet.permute(0, 3, 1, 4, 2).reshape(rows * (height + 1), columns * (width + 1), 4)
    content = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.numpy())).save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


def pixels(sheet: str) -> NDArray[Any]:
    """Decode a sheet to RGBA bytes, (height, width, 4)."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet))))
