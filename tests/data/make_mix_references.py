#!/usr/bin/env python3
"""Prints the constants of tests/data/mix.cpp: timm's mixup and CutMix with shares and boxes that are given."""
import numpy as np
import torch
from timm.data import mixup as timm_mixup

IMAGES = torch.tensor([(i * 7) % 32 for i in range(4 * 2 * 3 * 2)], dtype=torch.float32).reshape(4, 2, 3, 2)  # NHWC
LABELS = torch.tensor([2, 0, 1, 2])
BOX = (0, 2, 1, 2)  # yl, yh, xl, xh


def show(name, values):
    print(name, [round(float(v), 6) for v in np.asarray(values).reshape(-1)])


def mix(mode, shares, cuts):
    mixing = timm_mixup.Mixup(mixup_alpha=1, cutmix_alpha=1, mode=mode, label_smoothing=0.1, num_classes=3)
    mixing._params_per_batch = lambda: (shares[0], cuts[0])
    mixing._params_per_elem = lambda n: (np.array(shares[:n], dtype=np.float32), np.array(cuts[:n]))
    timm_mixup.cutmix_bbox_and_lam = lambda shape, lam, **_: (BOX, 1 - 2 / 6)
    images, targets = mixing(IMAGES.permute(0, 3, 1, 2).clone(), LABELS)
    show(f"{mode} images", images.permute(0, 2, 3, 1).contiguous())
    show(f"{mode} targets", targets)


for height, width, share, row, column in ((224, 224, 0.3, 10, 200), (7, 5, 0.51, 3, 2), (6, 6, 0.0, 0, 5), (9, 8, 1.0, 4, 4)):
    numbers = iter((row, column))
    np.random.randint = lambda *_, **__: next(numbers)
    (top, bottom, left, right), corrected = timm_mixup.cutmix_bbox_and_lam((3, height, width), share)
    print("box", top, bottom, left, right, repr(float(corrected)))
mix("batch", [0.3], [False])
mix("batch", [0.3], [True])
mix("elem", [0.25, 1.0, 0.5, 0.75], [False, False, True, False])
mix("pair", [0.25, 0.5], [False, True])
