#!/usr/bin/env python3
"""Writes average_precision.json beside it: drawn boxes, found boxes, and the figures that pycocotools counts for them.

    pip install pycocotools
"""
import contextlib
import io
import json
import pathlib
import random

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def drawn(seed, images, categories, crowds):
    draw = random.Random(seed)
    truth, found = [], []
    for image in range(1, images + 1):
        for _ in range(draw.randint(0, 6)):
            size = draw.choice([12, 50, 150])
            box = [round(draw.uniform(0, 200), 1), round(draw.uniform(0, 200), 1), round(draw.uniform(0.5, 1.5) * size, 1),
                   round(draw.uniform(0.5, 1.5) * size, 1)]
            category = draw.choice(categories)
            truth.append(dict(id=len(truth) + 1, image_id=image, category_id=category, bbox=box,
                              area=round(box[2] * box[3] * draw.choice([1, 0.6]), 2), iscrowd=int(draw.random() < crowds)))
            for _ in range(draw.randint(0, 3)):
                moved = [round(v + draw.uniform(-0.15, 0.15) * size, 1) for v in box]
                found.append(dict(image_id=image, category_id=draw.choice([category] * 5 + categories), bbox=moved,
                                  score=round(draw.random(), 1)))
        for _ in range(draw.choice([0, 1, 2, 130 if seed == 2 else 3])):
            found.append(dict(image_id=image, category_id=draw.choice(categories),
                              bbox=[round(draw.uniform(0, 250), 1) for _ in range(4)], score=round(draw.random(), 2)))
    return truth, found


def case(*how):
    truth, found = drawn(*how)
    coco = COCO()
    with contextlib.redirect_stdout(io.StringIO()):
        coco.dataset = dict(images=[dict(id=i) for i in range(1, how[1] + 1)], annotations=truth,
                            categories=[dict(id=c) for c in how[2]])
        coco.createIndex()
        counted = COCOeval(coco, coco.loadRes([dict(one) for one in found]), "bbox")
        counted.evaluate()
        counted.accumulate()
        counted.summarize()
    by_category = {}
    for k, category in enumerate(how[2]):
        own = counted.eval["precision"][:, :, k, 0, 2]
        by_category[category] = float(own[own > -1].mean()) if (own > -1).any() else -1
    return dict(truth=truth, found=found, figures=[float(v) for v in counted.stats], by_category=by_category)


CASES = [case(1, 12, [1, 3, 7], 0.15), case(2, 3, [2, 90], 0), case(3, 2, [1, 2, 3, 4, 5, 6, 7, 8], 0.5)]
(pathlib.Path(__file__).parent / "average_precision.json").write_text(json.dumps(CASES, separators=(",", ":")) + "\n")
