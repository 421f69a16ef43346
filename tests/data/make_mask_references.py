#!/usr/bin/env python3
"""Writes segmentation/ beside it: small masks in every mode, their values as Pillow and numpy read them, and colours as
mmsegmentation's PhotoMetricDistortion changes them by OpenCV.

    pip install pillow numpy opencv-python-headless
"""
import json
import pathlib

import cv2
import numpy as np
from PIL import Image

folder = pathlib.Path(__file__).parent / "segmentation"
folder.mkdir(exist_ok=True)

y, x = np.meshgrid(np.arange(5), np.arange(7), indexing="ij")
classes = ((x + 2 * y) % 5).astype(np.uint8)
PALETTE = [0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0, 0, 0, 128]


def palette(values, size=256):
    image = Image.fromarray(values)
    image.putpalette(PALETTE + [7] * (3 * size - len(PALETTE)))
    return image


border = classes.copy()
border[2, 3] = 255
wide = (classes.astype(np.uint16) * 300 + (classes == 4) * 64335).astype(np.uint16)

palette(border).save(folder / "palette.png")
palette(classes).save(folder / "palette_4_bits.png", bits=4)
palette(classes).save(folder / "palette.bmp")
palette(classes).save(folder / "palette_transparent.png", transparency=1)
Image.fromarray(border).save(folder / "grey.png")
Image.fromarray(border).save(folder / "grey.pgm")
Image.fromarray((classes > 1)).save(folder / "one_bit.png")
Image.fromarray(wide).save(folder / "grey_16_bits.png")
Image.fromarray(wide).save(folder / "grey_16_bits.pgm")
palette(classes).convert("RGB").save(folder / "rgb.png")
palette(classes).convert("RGBA").save(folder / "rgba.png")
Image.fromarray(classes).convert("LA").save(folder / "grey_alpha.png")
Image.fromarray(classes).save(folder / "grey.jpg")
Image.fromarray((classes > 1) * np.uint8(255)).save(folder / "black_white.png")
Image.fromarray(np.full((10, 14), 1, np.uint8)).save(folder / "large.png")

rgb = np.stack([x * 30, y * 50, x * 0 + 90], -1).astype(np.uint8)
Image.fromarray(rgb).save(folder / "image.png")
exif = Image.Exif()
exif[0x0112] = 6  # turned by 90 degrees
Image.fromarray(rgb.transpose(1, 0, 2).copy()).save(folder / "turned.jpg", exif=exif)

values = {}
for path in sorted(folder.iterdir()):
    image = Image.open(path) if path.suffix in (".png", ".pgm", ".bmp") else None
    if image is not None and image.mode in ("L", "P", "1", "I;16", "I") and "large" not in path.name:
        values[path.name] = np.asarray(image).astype(int).reshape(-1).tolist()
# Pillow's 16-bit grey of PGM is scaled by 65535 / the largest value, which is 65535 here.
(folder / "values.json").write_text(json.dumps(values))
# Masks of these sizes, as Image.resize(..., NEAREST) makes them.
nearest = {}
for height, width in ((3, 3), (5, 7), (9, 10), (1, 20)):
    resized = Image.fromarray(border).resize((width, height), Image.Resampling.NEAREST)
    nearest[f"{height}x{width}"] = np.asarray(resized).astype(int).reshape(-1).tolist()
positions = {}
for source, target in ((30, 47), (30, 17), (20, 61), (6, 9), (10, 15), (250, 101), (101, 250)):
    row = Image.fromarray(np.arange(source, dtype=np.uint8)[None]).resize((target, 1), Image.Resampling.NEAREST)
    positions[f"{source}x{target}"] = np.asarray(row).astype(int).reshape(-1).tolist()
(folder / "positions.json").write_text(json.dumps(positions))
(folder / "nearest.json").write_text(json.dumps(nearest))

# OpenCV truncates in vectors of 32 pixels and rounds what is left of a row.
colors = np.random.default_rng(1).integers(0, 256, (10, 32, 3)).astype(np.uint8)
colors[0, :10] = colors[0, :10, :1]  # grey


def convert(values, alpha=1.0, beta=0.0):
    return np.clip(values.astype(np.float32) * alpha + beta, 0, 255).astype(np.uint8)


def in_hsv(change):
    hsv = cv2.cvtColor(colors, cv2.COLOR_RGB2HSV)
    change(hsv)
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)


def saturate(alpha):
    return lambda hsv: hsv.__setitem__((..., 1), convert(hsv[..., 1], alpha=alpha))


def turn(steps):
    return lambda hsv: hsv.__setitem__((..., 0), (hsv[..., 0].astype(int) + steps) % 180)


(folder / "photometric.json").write_text(json.dumps({
    "image": colors.tobytes().hex(),
    "shift": {str(beta): convert(colors, beta=beta).tobytes().hex() for beta in (-31.5, 12.25)},
    "factor": {str(alpha): convert(colors, alpha=alpha).tobytes().hex() for alpha in (0.625, 1.375)},
    "saturation": {str(alpha): in_hsv(saturate(alpha)).tobytes().hex() for alpha in (0.625, 1.375)},
    "hue": {str(steps): in_hsv(turn(steps)).tobytes().hex() for steps in (-18, 0, 7)},
}))
