#!/usr/bin/env python3
"""Pixels of Pillow's, torchvision's and timm's operations on small images, as tests/data/augment reads them.

    pip install pillow torchvision timm numpy
    make_augment_references.py [FILE]     FILE is by default augment/references.json beside this script

Small results are kept as they are, in hexadecimal; larger ones as a hash (FNV-1a, 64 bits).
"""
import json, os, sys
import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from timm.data import auto_augment as timm
from torchvision.transforms import functional

BILINEAR, BICUBIC = Image.Resampling.BILINEAR, Image.Resampling.BICUBIC
FILL = (124, 116, 104)


def drawn(height, width, channels):
    """The images that augment/pixels.cpp draws as well."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    smooth, rough = (x * x * 3 + y * y * 5 + x * y * 7 + c * 300) >> 3, (x * 131 + y * 71 + c * 57) * 37
    return (np.where((x + y) % 7 < 5, smooth, rough) & 255).astype(np.uint8)


def extreme(height, width):
    """Only 0 and 255."""
    return np.where(drawn(height, width, 3) < 128, 0, 255).astype(np.uint8)


IMAGES = {
    "odd": drawn(5, 7, 3),
    "grey": drawn(4, 5, 1),
    "pixel": drawn(1, 1, 3) + np.uint8(77),
    "row": drawn(1, 6, 3),
    "column": drawn(6, 1, 3),
    "extreme": extreme(4, 6),
    "flat": np.full((3, 4, 3), 200, np.uint8),
    "large": drawn(53, 61, 3),
    "large grey": drawn(64, 40, 1),
}

OPERATIONS = {  # name: (function of image and argument, arguments)
    "auto_contrast": (lambda i, _: ImageOps.autocontrast(i), [0]),
    "equalize": (lambda i, _: ImageOps.equalize(i), [0]),
    "invert": (lambda i, _: ImageOps.invert(i), [0]),
    "solarize": (ImageOps.solarize, [0, 26, 128, 256]),
    "solarize_add": (timm.solarize_add, [0, 55, 110, 128]),
    "posterize": (timm.posterize, [1, 3, 8]),
    "saturation": (lambda i, f: ImageEnhance.Color(i).enhance(f), [0.0, 0.1, 0.55, 1.9]),
    "contrast": (lambda i, f: ImageEnhance.Contrast(i).enhance(f), [0.1, 0.73, 1.9]),
    "brightness": (lambda i, f: ImageEnhance.Brightness(i).enhance(f), [0.1, 0.73, 1.9]),
    "sharpness": (lambda i, f: ImageEnhance.Sharpness(i).enhance(f), [0.1, 0.6, 1.9]),
    "hue": (functional.adjust_hue, [-0.5, -0.1, 0.0, 0.3]),
    "gaussian_blur": (lambda i, r: i.filter(ImageFilter.GaussianBlur(r)), [0.1, 0.7, 1.3, 2.0, 5.0]),
}
GEOMETRY = {
    "rotate": (timm.rotate, [-30.0, 11.7, 90.0, 180.0]),
    "shear_x": (timm.shear_x, [-0.3, 0.0, 0.127]),
    "shear_y": (timm.shear_y, [-0.3, 0.127]),
    "translate_x": (timm.translate_x_rel, [-0.45, 0.0, 0.2]),
    "translate_y": (timm.translate_y_rel, [-0.3, 0.2]),
}


def as_image(pixels):
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def written(pixels):
    data = np.ascontiguousarray(pixels).tobytes()
    if len(data) <= 120:
        return data.hex()
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return f"#{value:016x}"


def cases():
    for image, pixels in IMAGES.items():
        for operation, (function, arguments) in OPERATIONS.items():
            for argument in arguments:
                yield {"image": image, "operation": operation, "argument": argument,
                       "pixels": written(np.asarray(function(as_image(pixels), argument)))}
        for operation, (function, arguments) in GEOMETRY.items():
            for argument in arguments:
                for name, resample in ("bilinear", BILINEAR), ("bicubic", BICUBIC):
                    fill = FILL if pixels.shape[2] == 3 else FILL[0]
                    out = function(as_image(pixels), argument, resample=resample, fillcolor=fill)
                    yield {"image": image, "operation": operation, "argument": argument, "filter": name,
                           "pixels": written(np.asarray(out))}


def levels():
    """The argument of each of timm's operations at some magnitudes, without the draw of a sign: the positive one."""
    timm._randomly_negate = lambda value: value
    for operation, to_argument in timm.LEVEL_TO_ARG.items():
        if to_argument is None or operation in ("TranslateX", "TranslateY"):
            continue
        for magnitude in 0, 0.37, 5, 9, 9.99, 10, 17.5:
            yield {"operation": operation, "magnitude": magnitude,
                   "argument": to_argument(magnitude, {"translate_pct": 0.45})[0]}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "augment", "references.json")
    lines = [",\n".join("  " + json.dumps(one) for one in some) for some in (cases(), levels())]
    with open(path, "w") as file:
        file.write('{"pixels": [\n%s\n ],\n "levels": [\n%s\n ]}\n' % tuple(lines))


if __name__ == "__main__":
    main()
