#!/usr/bin/env python3
"""Writes boxes.json beside it: what torchvision makes of drawn boxes: anchors, default boxes, matches, codes, and boxes
that are left.

    pip install torch torchvision
"""
import json
import pathlib

import torch
from torchvision.models.detection._utils import BoxCoder, Matcher, SSDMatcher
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import batched_nms, box_iou, nms

torch.manual_seed(5)


def drawn(count, side=100):
    corner = torch.rand(count, 2) * side
    return torch.cat([corner, corner + 4 + torch.rand(count, 2) * 40], 1)


def anchors():
    sizes = [[s, int(s * 2 ** (1 / 3)), int(s * 2 ** (2 / 3))] for s in (8, 16)]
    maps = [[5, 7], [3, 4]]
    made = AnchorGenerator([tuple(s) for s in sizes], ((0.5, 1.0, 2.0),) * 2)(
        ImageList(torch.zeros(1, 3, 40, 57), [(40, 57)]), [torch.zeros(1, 1, *m) for m in maps])
    return dict(image=[40, 57], maps=maps, sizes=sizes, ratios=[0.5, 1.0, 2.0], anchors=made[0].flatten().tolist())


def matches(low, high, best):
    own, truth = drawn(60), drawn(5)
    truth[4] = own[7]  # equal overlaps
    own[8] = own[7]
    found = Matcher(high, low, allow_low_quality_matches=best)(box_iou(truth, own))
    return dict(low=low, high=high, best=best, anchors=own.flatten().tolist(), truth=truth.flatten().tolist(),
                matches=found.tolist())


def defaults():
    maps = [[3, 4], [2, 2], [1, 1]]
    made = DefaultBoxGenerator([[2, 3]] * 3, min_ratio=0.2, max_ratio=0.95)(
        ImageList(torch.zeros(1, 3, 40, 57), [(40, 57)]), [torch.zeros(1, 1, *m) for m in maps])
    return dict(image=[40, 57], maps=maps, boxes=made[0].flatten().tolist())


def claimed():
    own, truth = drawn(60), drawn(6)
    truth[4] = own[7]  # equal overlaps
    own[8] = own[7]
    truth[5] = own[7]
    found = SSDMatcher(0.5)(box_iou(truth, own))
    return dict(anchors=own.flatten().tolist(), truth=truth.flatten().tolist(), matches=found.tolist())


def codes(weights):
    boxes, own = drawn(9), drawn(9)
    made = torch.randn(9, 4)
    made[2, 2:] = 7  # clipped
    coder = BoxCoder(weights)
    return dict(weights=weights, boxes=boxes.flatten().tolist(), anchors=own.flatten().tolist(),
                encoded=coder.encode_single(boxes, own).flatten().tolist(), codes=made.flatten().tolist(),
                decoded=coder.decode_single(made, own).flatten().tolist())


def left(threshold):
    boxes, scores, classes = drawn(40, 60), (torch.rand(40) * 10).round() / 10, torch.randint(0, 3, (40,))
    return dict(threshold=threshold, boxes=boxes.flatten().tolist(), scores=scores.tolist(), classes=classes.tolist(),
                left=nms(boxes, scores, threshold).tolist(), left_by_class=batched_nms(boxes, scores, classes, threshold).tolist())


made = dict(anchors=[anchors()], matches=[matches(0.4, 0.5, True), matches(0.3, 0.7, True), matches(0.5, 0.5, False)],
            codes=[codes([1.0, 1.0, 1.0, 1.0]), codes([10.0, 10.0, 5.0, 5.0])], left=[left(0.5), left(0.2)], defaults=[defaults()], claimed=[claimed()])
(pathlib.Path(__file__).parent / "boxes.json").write_text(json.dumps(made, separators=(",", ":")) + "\n")
