#!/usr/bin/env python3
"""Images a second prepared for training (decode, RandomResizedCrop 224, flip, normalise) beside torchvision's fastest
way on the CPU, and with DeiT's augmentation (RandAugment, random erasing) beside timm's, over the images of a tar.

    images.py --tar FILE [--bench build/release/bin/bench_images] [--python PYTHON] [--workers 2] [--rounds 3]

PYTHON has torch, torchvision and timm (bench/peers/images.py). One process a measurement, by turns, nothing else
running; the best of the rounds.
"""
import tarfile
import tempfile

import common

LINE = r"(\d+) images/s"


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--tar", required=True)
    parser.add_argument("--bench", default=common.ROOT / "build/release/bin/bench_images")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(a.tar) as tar:
            tar.extractall(folder, filter="data")
        for kind, recipe, other in (("bilinear", "plain", "torchvision"), ("bicubic", "plain", "torchvision"),
                                    ("bicubic", "deit", "timm")):
            arguments = [folder, "--workers", a.workers, "--interpolation", kind, "--recipe", recipe]
            ours = theirs = fast = 0
            for _ in range(a.rounds):
                ours = max(ours, *common.printed_by(LINE, a.bench, *arguments))
                fast = max(fast, *common.printed_by(LINE, a.bench, *arguments, "--decode", "fast"))
                theirs = max(theirs, *common.printed_by(LINE, a.python, common.ROOT / "bench/peers/images.py", *arguments))
            print(f"{recipe}, {kind}: {ours:.0f} images/s, {fast:.0f} with data.decode: fast, {other} {theirs:.0f}: "
                  f"{ours / theirs:.2f} and {fast / theirs:.2f} times")


if __name__ == "__main__":
    main()
