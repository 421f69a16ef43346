#!/usr/bin/env python3
"""Writes class_map.json beside it: classes of pixels as mmsegmentation's whole and slide inference and transformers'
post_process_semantic_segmentation find them, by torch.nn.functional.interpolate.

    pip install torch
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(1)
CLASSES = 5


def resize(x, height, width):
    return F.interpolate(x, size=(height, width), mode="bilinear", align_corners=False)


def starts(extent, side):
    stride = math.ceil(2 * side / 3)
    grids = max(extent - side + stride - 1, 0) // stride + 1
    return [max(min(i * stride, extent - side), 0) for i in range(grids)]


cases = []
for (height, width), model, grid in (((50, 70), 16, 4), ((33, 20), 12, 3), ((40, 40), 16, 8), ((16, 100), 16, 5)):
    # The whole image squashed.
    logits = torch.randn(1, CLASSES, grid, grid, dtype=torch.float64).round(decimals=4)
    whole = resize(logits, height, width).argmax(1)[0]
    cases.append({"image": [height, width], "model": model, "how": "squash", "windows": 1, "grid": grid,
                  "logits": logits.permute(0, 2, 3, 1).reshape(-1).tolist(), "classes": whole.reshape(-1).tolist()})
    # Windows.
    factor = model / min(height, width)
    big = [round(height * factor), round(width * factor)]
    places = [(top, left) for top in starts(big[0], model) for left in starts(big[1], model)]
    logits = torch.randn(len(places), CLASSES, grid, grid, dtype=torch.float64).round(decimals=4)
    total, count = torch.zeros(1, CLASSES, *big, dtype=torch.float64), torch.zeros(1, 1, *big)
    for (top, left), one in zip(places, logits):
        total[:, :, top:top + model, left:left + model] += resize(one[None], model, model)
        count[:, :, top:top + model, left:left + model] += 1
    slide = resize(total / count, height, width).argmax(1)[0] if len(places) > 1 else resize(
        logits, height, width).argmax(1)[0]
    cases.append({"image": [height, width], "model": model, "how": "windows", "windows": len(places), "grid": grid,
                  "logits": logits.permute(0, 2, 3, 1).reshape(-1).tolist(), "classes": slide.reshape(-1).tolist()})
for case in cases:
    case["logits"] = [round(value, 4) for value in case["logits"]]
(pathlib.Path(__file__).parent / "class_map.json").write_text(json.dumps(cases))
