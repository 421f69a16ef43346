#!/usr/bin/env python3
"""Writes tests/data/images: small odd image files, and references.txt with hashes of what Pillow and timm make of them.

    decode FILE HEIGHT WIDTH HASH       Image.open(FILE).convert("RGB")
    exif FILE HEIGHT WIDTH HASH         the same after ImageOps.exif_transpose
    view FILE BOX SIZE CORNER SIDE FLIP FILTER HASH    a crop, resized, cropped and mirrored
    center FILE SIDE PCT MODE FILTER HASH              timm's evaluation

Made with Pillow 13.0.0 (libjpeg-turbo 3.2.0) and timm 1.0.31. Needs numpy besides.
"""

import io
import pathlib
import random
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps
from timm.data.transforms_factory import transforms_imagenet_eval

folder = pathlib.Path(__file__).parent / "images"
MEAN = (0.485, 0.456, 0.406)


def picture(height, width, channels, seed=1):
    """Waves and edges, so that every block has high frequencies."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 100 * np.sin(x / (3 + c) + y / (5 - c) + seed) + 28 * ((x // 5 + y // 7 + c) % 2) for c in
              range(channels)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def png(height, width, depth, colour, rows, extra=b"", interlaced=False):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))


def save(name, array, mode=None, **options):
    image = Image.fromarray(array if array.shape[-1] != 1 else array[..., 0], mode)
    image.save(folder / name, **options)


def make_files():
    rgb = picture(45, 61, 3)
    for name, sampling in {"444": 0, "422": 1, "420": 2}.items():
        save(f"rgb_{name}.jpg", rgb, quality=85, subsampling=sampling)
    save("odd_420.jpg", picture(47, 83, 3, 3), quality=70, subsampling=2)
    save("wide_420.jpg", picture(70, 150, 3, 4), quality=60, subsampling=2)
    save("progressive.jpg", picture(70, 83, 3, 2), quality=75, progressive=True)
    save("grey.jpg", picture(33, 41, 1), quality=80)
    save("restarts.jpg", rgb, quality=75, restart_marker_blocks=2)
    save("stored_as_rgb.jpg", rgb, quality=85, keep_rgb=True)
    save("one_pixel.jpg", picture(1, 1, 3), quality=75)
    save("cmyk.jpg", picture(31, 37, 4), "CMYK", quality=85)
    for orientation in (0, 2, 3, 4, 5, 6, 7, 8, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"exif_{orientation}.jpg", picture(17, 26, 3), quality=80, exif=exif)
    # A PNG and a JPEG under each other's name, as ImageNet has them.
    (folder / "png.JPEG").write_bytes(encoded(rgb, "PNG"))
    (folder / "jpeg.png").write_bytes(encoded(rgb, "JPEG"))

    save("rgb.png", rgb)
    save("rgba.png", picture(20, 21, 4), "RGBA")
    save("grey.png", picture(19, 23, 1))
    save("grey_alpha.png", picture(19, 23, 2), "LA")
    palette = Image.fromarray(rgb).quantize(7)
    palette.save(folder / "palette_4_bits.png")
    palette.save(folder / "palette_transparent.png", transparency=2)
    Image.fromarray(rgb).quantize(200).save(folder / "palette.png")
    Image.fromarray(picture(19, 23, 1)[..., 0]).convert("1").save(folder / "one_bit.png")
    bits = np.random.default_rng(1)
    (folder / "grey_2_bits.png").write_bytes(png(9, 12, 2, 0, [bits.bytes(3) for _ in range(9)]))
    values = (np.arange(9 * 12) * 7).astype(">u2").reshape(9, 12)
    (folder / "grey_16_bits.png").write_bytes(png(9, 12, 16, 0, [row.tobytes() for row in values]))
    (folder / "grey_alpha_16_bits.png").write_bytes(png(9, 12, 16, 4, [bits.bytes(48) for _ in range(9)]))
    (folder / "rgb_16_bits.png").write_bytes(png(9, 12, 16, 2, [bits.bytes(72) for _ in range(9)]))
    (folder / "rgba_16_bits.png").write_bytes(png(9, 12, 16, 6, [bits.bytes(96) for _ in range(9)]))
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    small = picture(13, 11, 3)
    rows = [small[y, left::columns].tobytes() for top, left, lines, columns in passes
            for y in range(top, 13, lines) if small[y, left::columns].size]
    (folder / "interlaced.png").write_bytes(png(13, 11, 8, 2, rows, interlaced=True))
    exif = Image.Exif()
    exif[0x0112] = 6
    save("exif_6.png", small, exif=exif)

    save("rgb.bmp", rgb)
    save("rgba.bmp", picture(15, 14, 4), "RGBA")
    save("grey.bmp", picture(15, 14, 1))
    palette.save(folder / "palette.bmp")
    Image.fromarray(picture(19, 23, 1)[..., 0]).convert("1").save(folder / "one_bit.bmp")
    palette.save(folder / "palette.gif")
    palette.save(folder / "transparent.gif", transparency=2)
    Image.fromarray(rgb).save(folder / "two_frames.gif", save_all=True, append_images=[Image.fromarray(255 - rgb)])
    save("lossy.webp", picture(22, 33, 3), quality=80)
    save("lossless.webp", rgb, lossless=True)
    save("alpha.webp", picture(20, 21, 4), "RGBA", lossless=True, exact=True)
    Image.fromarray(rgb).save(folder / "animated.webp", save_all=True, lossless=True,
                              append_images=[Image.fromarray(255 - rgb)])
    save("grey.pgm", picture(11, 13, 1))
    save("rgb.ppm", picture(11, 13, 3))
    (folder / "largest_100.pgm").write_bytes(b"P5 # odd\n5 4\n100\n" + bytes(range(0, 100, 5)))
    (folder / "largest_1000.ppm").write_bytes(b"P6\n2 3 1000\n" + (np.arange(18) * 58).astype(">u2").tobytes())
    (folder / "grey_16_bits.pgm").write_bytes(b"P5\n4 4 65535\n" + (np.arange(16) * 20).astype(">u2").tobytes())
    (folder / "grey_10_bits.pgm").write_bytes(b"P5\n4 4 1023\n" + (np.arange(16) // 2).astype(">u2").tobytes())


def encoded(array, kind):
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, kind)
    return stream.getvalue()


def fnv1a(data):
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def described(image):
    return f"{image.height} {image.width} {fnv1a(image.tobytes())}"


def main():
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    make_files()
    lines = []
    filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "nearest": Image.NEAREST, "box": Image.BOX,
               "hamming": Image.HAMMING, "lanczos": Image.LANCZOS}
    for path in sorted(folder.iterdir()):
        lines.append(f"decode {path.name} {described(Image.open(path).convert('RGB'))}")
        if path.name.startswith("exif"):
            lines.append(f"exif {path.name} {described(ImageOps.exif_transpose(Image.open(path)).convert('RGB'))}")
    draw = random.Random(1)
    for name in ("rgb_444.jpg", "rgb_422.jpg", "odd_420.jpg", "wide_420.jpg", "progressive.jpg", "grey.jpg", "cmyk.jpg",
                 "restarts.jpg", "rgb.png", "grey_16_bits.png", "one_pixel.jpg", "rgb.ppm"):
        image = Image.open(folder / name).convert("RGB")
        for _ in range(8):
            height, width = draw.randint(1, image.height), draw.randint(1, image.width)
            top, left = draw.randint(0, image.height - height), draw.randint(0, image.width - width)
            side, flip, kind = draw.randint(1, 40), draw.randint(0, 1), draw.choice(list(filters))
            rows, columns = draw.randint(1, 60), draw.randint(1, 60)
            down, right = draw.randint(-5, rows), draw.randint(-5, columns)
            seen = image.crop((left, top, left + width, top + height)).resize((columns, rows), filters[kind])
            seen = seen.crop((right, down, right + side, down + side))  # black beyond the edge
            if flip:
                seen = ImageOps.mirror(seen)
            lines.append(f"view {name} {top} {left} {height} {width} {rows} {columns} {down} {right} {side} {flip} "
                         f"{kind} {fnv1a(seen.tobytes())}")
        for _ in range(3):
            side, part, kind = draw.randint(8, 40), draw.choice((0.6, 0.875, 0.95, 1.0)), draw.choice(list(filters))
            for mode in ("center", "squash", "border"):
                chain = transforms_imagenet_eval(side, crop_pct=part, crop_mode=mode, interpolation=kind, mean=MEAN,
                                                 use_prefetcher=True)
                lines.append(f"center {name} {side} {part} {mode} {kind} "
                             f"{fnv1a(np.asarray(chain(image)).transpose(1, 2, 0).tobytes())}")
    (folder / "references.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
