#!/usr/bin/env python3
"""torchvision's side of bench/compare.py for small convolutional networks, segmentation and detection: a training step in f32.

    dense.py MODEL BATCH [--compile] [--bf16] [--threads 2] [--steps 6]

MODEL is mobilenet_v3_large or efficientnet_v2_s (224 pixels, 1000 classes), fcn_resnet50 (256 pixels, 21 classes, with its
auxiliary head, both losses at the size of the image) or retinanet_resnet50_fpn or fasterrcnn_resnet50_fpn (320 pixels, 91
classes, frozen batch norm, three of five stages trained). Made-up images, channels last, fused AdamW. Prints one line with
`X samples/s best, Y median; kept K MiB; peak RSS P MiB` in it, of steps.
"""
import argparse
import time

import torch
import torch.nn.functional as F
import torchvision

from steps import kept_bytes, print_line


def drawn_boxes(size):
    corner = torch.rand(4, 2) * size * 0.5
    return torch.cat((corner, corner + 16 + torch.rand(4, 2) * size * 0.4), 1)


def built(name, batch):
    """The network, and its loss as a function of the network."""
    size = {"fcn_resnet50": 256, "retinanet_resnet50_fpn": 320, "fasterrcnn_resnet50_fpn": 320}.get(name, 224)
    images = torch.randn(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
    if name == "fcn_resnet50":
        net = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, aux_loss=True)
        labels = torch.randint(0, 21, (batch, size, size))

        def loss(run):
            out = run(images)
            return F.cross_entropy(out["out"].float(), labels) + 0.5 * F.cross_entropy(out["aux"].float(), labels)
    elif name in ("retinanet_resnet50_fpn", "fasterrcnn_resnet50_fpn"):
        # The backbone of torchvision's pretrained detectors: batch norm frozen, stem and first stage too.
        from torchvision.models.detection import FasterRCNN, RetinaNet
        from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
        from torchvision.ops.feature_pyramid_network import LastLevelP6P7
        body = torchvision.models.resnet50(norm_layer=torchvision.ops.FrozenBatchNorm2d)
        if name == "retinanet_resnet50_fpn":
            backbone = _resnet_fpn_extractor(body, 3, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256))
            net = RetinaNet(backbone, 91, min_size=size, max_size=size)
        else:
            net = FasterRCNN(_resnet_fpn_extractor(body, 3), 91, min_size=size, max_size=size)
        images = torch.rand(batch, 3, size, size)
        targets = [{"boxes": drawn_boxes(size), "labels": torch.randint(1, 91, (4,))} for _ in range(batch)]

        def loss(run):
            return sum(run(list(images), targets).values())
    else:
        net = getattr(torchvision.models, name)()
        labels = torch.randint(0, 1000, (batch,))

        def loss(run):
            return F.cross_entropy(run(images).float(), labels)
    return net.train().to(memory_format=torch.channels_last), loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    net, loss = built(a.model, a.batch)
    run = torch.compile(net) if a.compile else net
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-4, fused=True)

    def measured_loss():
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            return loss(run)

    kept = 0 if a.compile else kept_bytes([*net.parameters(), *net.buffers()], measured_loss)
    seconds = []
    for step in range(a.steps + 2):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        measured_loss().backward()
        optimizer.step()
        if step >= 2:
            seconds.append(time.perf_counter() - begin)
    print_line(a.batch, seconds, kept)


if __name__ == "__main__":
    main()
