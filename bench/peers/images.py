#!/usr/bin/env python3
"""Images a second of torchvision's fastest way on the CPU: decode_jpeg, RandomResizedCrop, flip and normalise of
transforms.v2, in a DataLoader. Takes the arguments of bench_images; --workers 0 prepares them in this process.
Files that decode_jpeg does not read are left out. With --recipe deit: Pillow and timm's transforms."""
import argparse
import io
import pathlib
import time

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import InterpolationMode, v2


def deit_transforms(interpolation):
    from timm.data import auto_augment, create_transform
    # At magnitude 10 no bits are left, which Pillow 13 refuses and earlier versions made black.
    posterize = auto_augment.NAME_TO_OP["PosterizeIncreasing"]
    auto_augment.NAME_TO_OP["PosterizeIncreasing"] = lambda image, bits, **rest: posterize(image, max(bits, 1), **rest)
    return create_transform(224, is_training=True, interpolation=interpolation, auto_augment="rand-m9-mstd0.5-inc1",
                            re_prob=0.25, re_mode="pixel", re_count=1)


class Files(Dataset):
    def __init__(self, folder, size, interpolation, recipe):
        self.files, self.size = [], size
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if not path.is_file():
                continue
            encoded = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
            try:
                decode_jpeg(encoded, ImageReadMode.RGB)
                self.files.append(encoded)
            except RuntimeError:
                pass
        self.transforms = v2.Compose([
            v2.RandomResizedCrop(224, interpolation=InterpolationMode(interpolation), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ])

        self.timm = deit_transforms(interpolation) if recipe == "deit" else None

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        file = self.files[index % len(self.files)]
        if self.timm:
            return self.timm(Image.open(io.BytesIO(file.numpy())).convert("RGB")), 0
        return self.transforms(decode_jpeg(file, ImageReadMode.RGB)), 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--interpolation", default="bilinear")
    parser.add_argument("--recipe", default="plain")
    a = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Files(a.folder, a.images, a.interpolation, a.recipe), a.batch, shuffle=True, drop_last=True,
                        num_workers=a.workers, persistent_workers=a.workers > 0)
    for _ in loader:  # warms up
        pass
    images, begin, used = 0, time.perf_counter(), time.process_time()
    for batch, _ in loader:
        images += len(batch)
    seconds = time.perf_counter() - begin
    print(f"{images / seconds:.0f} images/s, {(time.process_time() - used) / images * 1e6:.0f} µs of this process each")


if __name__ == "__main__":
    main()
