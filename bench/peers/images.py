#!/usr/bin/env python3
"""Images a second of torchvision's fastest way on the CPU: decode_jpeg, RandomResizedCrop, flip and normalise of
transforms.v2, in a DataLoader. Takes the arguments of bench_images; --workers 0 prepares them in this process.
Files that decode_jpeg does not read are left out."""
import argparse
import pathlib
import time

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import InterpolationMode, v2


class Files(Dataset):
    def __init__(self, folder, size, interpolation):
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

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.transforms(decode_jpeg(self.files[index % len(self.files)], ImageReadMode.RGB)), 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--interpolation", default="bilinear")
    a = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Files(a.folder, a.images, a.interpolation), a.batch, shuffle=True, drop_last=True,
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
