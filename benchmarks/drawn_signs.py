"""Draw a folder of signs, one class per shape, on which the recipe for users' own folders was chosen.

python benchmarks/drawn_signs.py signs --side 32 --each 60 --seed 7
"""

import argparse
import math
import random
from pathlib import Path

from PIL import Image, ImageDraw

FINER = 4
"""Signs are drawn this many times larger and then scaled down, for smooth edges."""
COLOURS = {
    "circle": (200, 30, 30),
    "triangle": (30, 60, 200),
    "square": (30, 160, 60),
    "ring": (240, 220, 40),
    "cross": (20, 20, 20),
    "bar": (250, 250, 250),
}


def sign(shape: str, side: int, one_colour: bool, draw: random.Random) -> Image.Image:
    """Draw a sign of random size near the centre, on a random background; polygons are slightly rotated."""
    large = side * FINER
    image = Image.new("RGB", (large, large), tuple(draw.randint(90, 220) for _ in range(3)))
    colour = tuple(draw.randint(0, 255) for _ in range(3))
    colour = COLOURS[shape] if one_colour else colour
    x, y = (large / 2 + draw.uniform(-large / 12, large / 12) for _ in range(2))
    r, turn = large * draw.uniform(0.25, 0.38), draw.uniform(-0.25, 0.25)
    canvas, box = ImageDraw.Draw(image), [x - r, y - r, x + r, y + r]
    if shape == "circle":
        canvas.ellipse(box, fill=colour)
    elif shape == "ring":
        canvas.ellipse(box, outline=colour, width=int(r * 0.35))
    elif shape == "bar":
        canvas.rectangle([x - r, y - r * 0.25, x + r, y + r * 0.25], fill=colour)
    elif shape == "cross":
        canvas.line(box, fill=colour, width=int(r * 0.4))
        canvas.line([x - r, y + r, x + r, y - r], fill=colour, width=int(r * 0.4))
    else:
        corners, first = (3, -math.pi / 2) if shape == "triangle" else (4, math.pi / 4)
        angles = [turn + first + 2 * math.pi * i / corners for i in range(corners)]
        canvas.polygon([(x + r * math.cos(a), y + r * math.sin(a)) for a in angles], fill=colour)
    return image.resize((side, side), Image.Resampling.LANCZOS)


def main() -> None:
    """Draw all signs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--each", type=int, default=60, help="images of each of the six classes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--one-colour", action="store_true", help="one fixed colour per class instead of random ones: much easier"
    )
    options = parser.parse_args()
    draw = random.Random(options.seed)
    for shape in COLOURS:
        (options.out / shape).mkdir(parents=True, exist_ok=True)
        for i in range(options.each):
            sign(shape, options.side, options.one_colour, draw).save(options.out / shape / f"{i}.png")


if __name__ == "__main__":
    main()
