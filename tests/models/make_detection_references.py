#!/usr/bin/env python3
"""Small detectors of torchvision, one safetensors file a case, as `lacuna verify` reads them.

    pip install torch torchvision timm safetensors
    make_detection_references.py [OUT]           OUT is by default references/ beside this script
    make_detection_references.py OUT classifier  a MobileNetV3 as a classifier in torchvision's and in timm's names, and as SSDLite's
                                                 backbone, in one file
    make_detection_references.py OUT full        models at full size, computed in f64: `lacuna verify` reads them, hundreds of MiB each

num_classes counts the background, as torchvision does. The second image has no object. RetinaNet's backbone is timm's ResNet,
which has narrow forms. Results of cases named f64 are computed in f64 from the same f32 weights and images.
"""
import json, os, sys
from functools import partial

import torch
import torch.nn as nn
from safetensors.torch import save_file
from timm.models.resnet import BasicBlock, Bottleneck, ResNet, make_blocks
from torchvision.models.detection import FasterRCNN, RetinaNet
from torchvision.models.detection._utils import retrieve_out_channels
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.ssd import SSD
from torchvision.models.detection.ssdlite import SSDLiteFeatureExtractorMobileNet, SSDLiteHead
from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3
from torchvision.ops import FrozenBatchNorm2d, MultiScaleRoIAlign
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

BACKBONE = dict(block="basic", layers=[1, 1, 1, 1], channels=[4, 4, 6, 8], stem_width=6, norm="frozen")
RETINANET = dict(family="retinanet", num_classes=3, backbone=BACKBONE, fpn_channels=6, image_size=[56, 72], score_thresh=0.05,
                 nms_thresh=0.4, topk_candidates=30, detections_per_img=12, anchor_sizes=[[8, 10], [16, 20], [32, 40], [48, 60], [64, 80]])
SSDLITE = dict(family="ssdlite", num_classes=3, image_size=[72, 56], score_thresh=0.05, nms_thresh=0.5, topk_candidates=20,
               detections_per_img=12, width=0.05, blocks=[[8, 3, 8, 8, 0, "RE", 1], [8, 3, 16, 8, 1, "RE", 2],
                                                          [8, 5, 24, 16, 0, "HS", 2], [16, 5, 32, 16, 1, "HS", 1]])
# Draws cannot be compared: all anchors and proposals are taken.
FASTER_RCNN = dict(family="fasterrcnn", num_classes=3, backbone=dict(BACKBONE, block="bottleneck", channels=[4, 4, 4, 6]), fpn_channels=6,
                   image_size=[56, 72], score_thresh=0.05, nms_thresh=0.4, topk_candidates=30, detections_per_img=12,
                   anchor_sizes=[[8], [12], [20], [32], [48]], roi_size=3, representation=12, rpn_pre_nms_top_n_train=40,
                   rpn_post_nms_top_n_train=20, rpn_post_nms_top_n_test=16, rpn_nms_thresh=0.6, rpn_batch_size_per_image=100000,
                   box_batch_size_per_image=100000)
SGD = dict(name="sgd", lr=0.01, momentum=0.9, weight_decay=1e-4)
CASES = {
    "retinanet": (RETINANET, SGD),
    "retinanet-norms-f64": (dict(RETINANET, backbone=dict(BACKBONE, block="bottleneck", channels=[4, 4, 4, 6], norm="batch"),
                                 anchor_sizes=[[9], [18], [36], [54], [72]]), None),
    "ssdlite-f64": (SSDLITE, None),
    "faster-rcnn": (FASTER_RCNN, SGD),
}
WHOLE = dict(block="bottleneck", layers=[3, 4, 6, 3], channels=[64, 128, 256, 512], stem_width=64, norm="frozen")
FULL = {
    "retinanet_resnet50-f64": dict(RETINANET, backbone=WHOLE, num_classes=91, fpn_channels=256, image_size=[256, 320],
                                   anchor_sizes=[[32, 40, 50], [64, 80, 101], [128, 161, 203], [256, 322, 406], [512, 645, 812]]),
    "faster_rcnn_resnet50-f64": dict(FASTER_RCNN, backbone=WHOLE, num_classes=91, fpn_channels=256, image_size=[256, 320],
                                     anchor_sizes=[[32], [64], [128], [256], [512]], roi_size=7, representation=1024),
    "ssdlite320-f64": dict(SSDLITE, num_classes=91, image_size=[320, 320], width=1.0, blocks=[
        [16, 3, 16, 16, 0, "RE", 1], [16, 3, 64, 24, 0, "RE", 2], [24, 3, 72, 24, 0, "RE", 1], [24, 5, 72, 40, 1, "RE", 2],
        [40, 5, 120, 40, 1, "RE", 1], [40, 5, 120, 40, 1, "RE", 1], [40, 3, 240, 80, 0, "HS", 2], [80, 3, 200, 80, 0, "HS", 1],
        [80, 3, 184, 80, 0, "HS", 1], [80, 3, 184, 80, 0, "HS", 1], [80, 3, 480, 112, 1, "HS", 1], [112, 3, 672, 112, 1, "HS", 1],
        [112, 5, 672, 80, 1, "HS", 2], [80, 5, 480, 80, 1, "HS", 1], [80, 5, 480, 80, 1, "HS", 1]]),
}


def resnet(m):
    b = m["backbone"]
    bottleneck = b["block"] == "bottleneck"
    block = Bottleneck if bottleneck else BasicBlock
    norm = (lambda c, **_: FrozenBatchNorm2d(c)) if b["norm"] == "frozen" else nn.BatchNorm2d
    body = ResNet(block, b["layers"], channels=tuple(b["channels"]), norm_layer=norm)
    # A narrower stem than timm's, and stages for what comes out of it.
    body.conv1, body.bn1 = nn.Conv2d(3, b["stem_width"], 7, 2, 3, bias=False), norm(b["stem_width"])
    stages, _ = make_blocks((block,) * 4, tuple(b["channels"]), tuple(b["layers"]), b["stem_width"], output_stride=32,
                            norm_layer=norm)
    for name, stage in stages:
        setattr(body, name, stage)
    return body, [c * (4 if bottleneck else 1) for c in b["channels"]]


def as_given(m):
    """Images come normalised and at their size."""
    return dict(image_mean=[0.0] * 3, image_std=[1.0] * 3, min_size=min(m["image_size"]), max_size=max(m["image_size"]))


def retinanet(m):
    body, channels = resnet(m)
    backbone = BackboneWithFPN(body, {"layer2": "0", "layer3": "1", "layer4": "2"}, channels[1:], m["fpn_channels"],
                               LastLevelP6P7(m["fpn_channels"], m["fpn_channels"]))
    anchors = AnchorGenerator(tuple(map(tuple, m["anchor_sizes"])), ((0.5, 1.0, 2.0),) * len(m["anchor_sizes"]))
    return RetinaNet(backbone, m["num_classes"], anchor_generator=anchors, **as_given(m),
                     **{k: m[k] for k in ("score_thresh", "nms_thresh", "topk_candidates", "detections_per_img")})


def ssdlite(m):
    norm = partial(nn.BatchNorm2d, eps=1e-3, momentum=0.03)
    blocks = [InvertedResidualConfig(i, k, e, o, bool(se), act, s, 1, 1.0) for i, k, e, o, se, act, s in m["blocks"]]
    layers = MobileNetV3(blocks, last_channel=8, norm_layer=norm).features
    split = [i for i, b in enumerate(layers) if getattr(b, "_is_cn", False)][-1]
    backbone = SSDLiteFeatureExtractorMobileNet(layers, split, norm, width_mult=m["width"], min_depth=8)
    boxes = DefaultBoxGenerator([[2, 3]] * 6, min_ratio=0.2, max_ratio=0.95)
    height, width = m["image_size"]
    head = SSDLiteHead(retrieve_out_channels(backbone, (width, height)), boxes.num_anchors_per_location(), m["num_classes"], norm)
    return SSD(backbone, boxes, (height, width), m["num_classes"], image_mean=[0.0] * 3, image_std=[1.0] * 3, head=head,
               **{k: m[k] for k in ("score_thresh", "nms_thresh", "topk_candidates", "detections_per_img")})


def faster_rcnn(m):
    body, channels = resnet(m)
    backbone = BackboneWithFPN(body, {f"layer{i + 1}": str(i) for i in range(4)}, channels, m["fpn_channels"])
    anchors = AnchorGenerator(tuple(map(tuple, m["anchor_sizes"])), ((0.5, 1.0, 2.0),) * len(m["anchor_sizes"]))
    return FasterRCNN(backbone, rpn_anchor_generator=anchors, rpn_pre_nms_top_n_test=m["topk_candidates"],
                      box_roi_pool=MultiScaleRoIAlign(["0", "1", "2", "3"], m["roi_size"], 2),
                      box_head=TwoMLPHead(m["fpn_channels"] * m["roi_size"] ** 2, m["representation"]),
                      box_predictor=FastRCNNPredictor(m["representation"], m["num_classes"]),
                      **{"box_" + k: m[k] for k in ("score_thresh", "nms_thresh", "detections_per_img")}, **as_given(m),
                      **{k: v for k, v in m.items() if k.startswith("rpn_") or k == "box_batch_size_per_image"})


def watch(net, seen):
    """Writes what the heads give in training into `seen`; returns what to call when done."""
    if not isinstance(net, FasterRCNN):
        hooks = [net.head.register_forward_hook(lambda module, given, result: seen.update(result)),
                 net.anchor_generator.register_forward_hook(lambda module, given, result: seen.update(anchors=result[0]))]
        return lambda: [hook.remove() for hook in hooks]
    def of_maps(module, given, result):
        for name, maps in zip(("rpn_logits", "rpn_deltas"), result):
            seen.update({f"{name}.{i}": one for i, one in enumerate(maps)})
    hooks = [net.rpn.head.register_forward_hook(of_maps),
             net.roi_heads.box_predictor.register_forward_hook(
                 lambda module, given, result: seen.update(cls_logits=result[0], bbox_regression=result[1])),
             net.rpn.anchor_generator.register_forward_hook(lambda module, given, result: seen.update(anchors=result[0]))]
    select = net.roi_heads.select_training_samples
    def selected(proposals, targets):
        samples = select(proposals, targets)
        seen.update(proposals=torch.cat(samples[0]), proposal_labels=torch.cat(samples[2]),
                    proposal_offsets=torch.tensor([0] + [len(one) for one in samples[0]]).cumsum(0))
        return samples
    net.roi_heads.select_training_samples = selected
    return lambda: [hook.remove() for hook in hooks]


def in_place(net, images):
    """Images as they are: neither resized nor padded."""
    net.transform.resize = lambda image, target=None: (image, target)
    net.transform.size_divisible = 1
    net.transform.batch_images = lambda all, size_divisible=1: torch.stack(list(all))
    return images


def in_f64(net):
    """In f64, also where torch rounds to f32: a sixth in the gradient of hard sigmoids, the loss against labels in f32."""
    for module in net.modules():
        if isinstance(module, nn.Hardsigmoid):
            module.forward = lambda x: nn.functional.relu6(x + 3) / 6
    if isinstance(net, FasterRCNN):
        assign = net.rpn.assign_targets_to_anchors
        def assigned(*given):
            labels, boxes = assign(*given)
            return [one.double() for one in labels], boxes
        net.rpn.assign_targets_to_anchors = assigned
    return net.double()


def write(path, m, opt):
    double = "f64" in os.path.basename(path)
    torch.manual_seed(1)
    net = {"retinanet": retinanet, "fasterrcnn": faster_rcnn, "ssdlite": ssdlite}[m["family"]](m)
    with torch.no_grad():
        for tensor in list(net.parameters()) + [b for b in net.buffers() if b.is_floating_point() and b.dim() == 1]:
            # A small change to each weight of a wide layer.
            wide = "full" in sys.argv[2:] and tensor.dim() > 1 and tensor[0].numel() > 256
            tensor.add_((torch.rand_like(tensor) - 0.5) * 0.02 if wide else torch.rand_like(tensor) * 0.2 - 0.1)
        if m["family"] == "retinanet":
            net.head.classification_head.cls_logits.bias.add_(3.5)
        if m["family"] == "fasterrcnn":  # no proposals whose order rounding decides
            net.rpn.head.cls_logits.weight.mul_(10)
    tensors = {"weight/" + k: v.clone() for k, v in net.state_dict().items() if v.is_floating_point()}
    height, width = m["image_size"]
    images = torch.randn(3, 3, height, width)
    counts = [2, 0, 3]
    corners = torch.rand(sum(counts), 2) * torch.tensor([width, height]) * 0.6
    boxes = torch.cat((corners, corners + (0.12 + 0.25 * torch.rand(sum(counts), 2)) * torch.tensor([width, height])), 1)
    labels = torch.randint(1, m["num_classes"], (sum(counts),))
    offsets = torch.tensor([0] + counts).cumsum(0)
    tensors.update({"input/image": images, "target/boxes": boxes, "target/labels": labels, "target/offsets": offsets})
    if double:
        net, images, boxes = in_f64(net), images.double(), boxes.double()
    targets = [dict(boxes=boxes[a:b], labels=labels[a:b]) for a, b in zip(offsets[:-1], offsets[1:])]
    images = in_place(net, list(images))
    with torch.no_grad():
        found = net.eval()(images)
    for name in ("boxes", "scores", "labels"):
        tensors["eval/" + name] = torch.cat([one[name] for one in found])
    tensors["eval/offsets"] = torch.tensor([0] + [len(one["labels"]) for one in found]).cumsum(0)
    seen = {}
    done = watch(net, seen)
    losses = net.train()(images, targets)
    done()
    sum(losses.values()).backward()
    tensors.update({"output/" + k: v.detach().clone() for k, v in seen.items()})
    tensors.update({"output/loss_" + k.removeprefix("loss_"): v.detach().clone() for k, v in losses.items()})
    tensors["output/loss"] = sum(losses.values()).detach().clone()
    tensors.update({"grad/" + k: p.grad.clone() for k, p in net.named_parameters()})
    metadata = {"model": json.dumps(m)}
    if opt is not None:
        metadata["optimizer"] = json.dumps(opt)
        torch.optim.SGD(net.parameters(), **{k: v for k, v in opt.items() if k != "name"}).step()
        tensors.update({"after/" + k: v.clone() for k, v in net.state_dict().items() if v.is_floating_point()})
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata=metadata)
    print(f"{path}: {os.path.getsize(path)} bytes, loss {tensors['output/loss'].item():.6f}, {len(tensors['eval/labels'])} found")


def write_classifier(path):
    """SSDLITE's backbone as a classifier: each name begins with that of the library, or with ssdlite."""
    from timm.models._efficientnet_blocks import SqueezeExcite
    from timm.models._efficientnet_builder import decode_arch_def, round_channels
    from timm.models.mobilenetv3 import MobileNetV3 as TimmMobileNetV3
    torch.manual_seed(1)
    norm = partial(nn.BatchNorm2d, eps=1e-3)
    blocks = [InvertedResidualConfig(i, k, e, o, bool(se), act, s, 1, 1.0) for i, k, e, o, se, act, s in SSDLITE["blocks"]]
    net = MobileNetV3(blocks, last_channel=8, num_classes=5, norm_layer=norm).eval()
    with torch.no_grad():
        for tensor in [*net.parameters(), *(b for b in net.buffers() if b.dim() == 1)]:
            tensor.add_(torch.rand_like(tensor) * 0.2)
    timm = TimmMobileNetV3(
        decode_arch_def([["ds_r1_k3_s1_e1_c8_nre"], ["ir_r1_k3_s2_e2_c8_se0.25_nre"],
                         ["ir_r1_k5_s2_e3_c16", "ir_r1_k5_s1_e2_c16_se0.25"], ["cn_r1_k1_s1_c96"]]),
        num_classes=5, stem_size=8, num_features=8, norm_layer=norm, act_layer=nn.Hardswish,
        se_layer=partial(SqueezeExcite, gate_layer="hard_sigmoid", force_act_layer=nn.ReLU, rd_round_fn=round_channels)).eval()
    # Both have the layers in one order.
    features = {k: v for k, v in timm.state_dict().items() if not k.startswith(("conv_head.", "classifier."))}
    for ours, theirs in zip(features.values(), net.features.state_dict().values(), strict=True):
        ours.copy_(theirs)
    images = torch.randn(2, 3, 64, 64)
    assert torch.allclose(timm.forward_features(images), net.features(images), atol=1e-5)
    split = [i for i, b in enumerate(net.features) if getattr(b, "_is_cn", False)][-1]
    detector = SSDLiteFeatureExtractorMobileNet(net.features, split, norm, width_mult=SSDLITE["width"], min_depth=8)
    states = {"torchvision/": net, "timm/": timm, "ssdlite/backbone.features.": detector.features}
    save_file({prefix + k: v.clone() for prefix, one in states.items() for k, v in one.state_dict().items()}, path)
    print(f"{path}: {os.path.getsize(path)} bytes")


if "classifier" in sys.argv[2:]:
    write_classifier(os.path.join(sys.argv[1], "mobilenetv3.safetensors"))
    sys.exit()
out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "references")
os.makedirs(out, exist_ok=True)
for case, arguments in {name: (model, None) for name, model in FULL.items()}.items() if "full" in sys.argv[2:] else CASES.items():
    write(os.path.join(out, case + ".safetensors"), *arguments)
