#!/usr/bin/env python3
"""Small whole-model references from timm, one safetensors file a case, as `lacuna verify` reads them.

    pip install torch timm safetensors numpy
    make_references.py [OUT]        OUT is by default references/ beside this script

Odd shapes and rare options, each file small enough to live beside the tests. A model is described by Lacuna's
hyper-parameters; `build` says what they are in timm. Weights are moved away from zero and one, so that a swapped or
forgotten parameter shows.
"""
import fnmatch, json, os, sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.models.resnet import BasicBlock, Bottleneck, ResNet, make_blocks
from timm.models.vision_transformer import VisionTransformer

VIT = dict(family="vit", image_size=12, patch_size=4, embed_dim=6, depth=2, num_heads=2, num_classes=5)
RESNET = dict(family="resnet", in_channels=1, image_size=33, layers=[1, 1], channels=[4, 6], num_classes=5)
CIFAR = dict(family="resnet", image_size=10, block="basic", layers=[2, 1], channels=[4, 6], stem="cifar",
             stem_width=4, num_classes=3)
ADAMW = dict(name="adamw", lr=1e-3, weight_decay=0.05, betas=[0.9, 0.999], eps=1e-8)
SGD = dict(name="sgd", lr=0.1, momentum=0.9, weight_decay=1e-3)

CASES = {  # model, optimizer, trained (None: all), batch
    "vit-token": (VIT, ADAMW, None, 3),
    "vit-chain": (dict(VIT, attention="chain", activation="gelu_tanh", depth=1), SGD, None, 2),
    "vit-average": (dict(VIT, global_pool="avg", mlp_ratio=1.7, depth=1), ADAMW, None, 2),
    "vit-average-no-token": (dict(VIT, global_pool="avg", class_token=False, qkv_bias=False, depth=1), None, None, 3),
    "vit-one-patch": (dict(VIT, image_size=4, in_channels=2, num_heads=1, depth=1), None, None, 2),
    "vit-only-linear": (VIT, None, ["*qkv*", "*fc?.*"], 2),
    "vit-only-positions": (VIT, None, ["cls_token", "pos_embed"], 2),
    "resnet-basic": (dict(RESNET, block="basic"), None, None, 3),
    "resnet-groups": (dict(RESNET, block="bottleneck", cardinality=2, base_width=48, image_size=17), None, None, 4),
    "resnet-only-bias": (dict(CIFAR, block="bottleneck"), None, ["*bias"], 3),
    "resnet-only-convolutions": (CIFAR, ADAMW, ["*conv*", "*downsample.0*"], 4),
    "resnet-cifar": (CIFAR, SGD, None, 5),
}


def vit(m):
    activation = "gelu_tanh" if m.get("activation") == "gelu_tanh" else "gelu"
    return VisionTransformer(
        img_size=m["image_size"], patch_size=m["patch_size"], in_chans=m.get("in_channels", 3),
        embed_dim=m["embed_dim"], depth=m["depth"], num_heads=m["num_heads"], num_classes=m["num_classes"],
        mlp_ratio=m.get("mlp_ratio", 4.0), qkv_bias=m.get("qkv_bias", True), class_token=m.get("class_token", True),
        global_pool=m.get("global_pool", "token"), act_layer=activation)


def resnet(m):
    block = BasicBlock if m["block"] == "basic" else Bottleneck
    groups = dict(cardinality=m.get("cardinality", 1), base_width=m.get("base_width", 64))
    net = ResNet(block, m["layers"], channels=tuple(m["channels"]), in_chans=m.get("in_channels", 3),
                 num_classes=m["num_classes"], **groups)
    if m.get("stem") == "cifar":    # timm has no such stem: stages anew, for what comes out of a narrower one
        width = m["stem_width"]
        net.conv1, net.bn1 = nn.Conv2d(m.get("in_channels", 3), width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        net.maxpool = nn.Identity()
        stages, _ = make_blocks((block,) * len(m["channels"]), tuple(m["channels"]), tuple(m["layers"]), width,
                                output_stride=32, **groups)
        for name, stage in stages:
            setattr(net, name, stage)
    forward = net.forward_features  # timm always runs four stages' names; here as many as there are

    def forward_features(x):
        x = net.maxpool(net.act1(net.bn1(net.conv1(x))))
        for i in range(len(m["layers"])):
            x = getattr(net, f"layer{i + 1}")(x)
        return x
    net.forward_features = forward_features if len(m["layers"]) != 4 else forward
    return net


def optimizer(o, parameters):
    o = dict(o)
    return {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[o.pop("name")](parameters, **o)


def floating(state, prefix):
    return {prefix + name: value.detach().clone() for name, value in state.items() if value.is_floating_point()}


def write(path, model, opt, trained, batch):
    torch.manual_seed(1)
    net = {"vit": vit, "resnet": resnet}[model["family"]](model)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    for name, p in net.named_parameters():
        p.requires_grad_(trained is None or any(fnmatch.fnmatch(name, pattern) for pattern in trained))
    tensors = floating(net.state_dict(), "weight/")
    size = model["image_size"]
    tensors["input/image"] = torch.randn(batch, model.get("in_channels", 3), size, size)
    tensors["target"] = torch.randint(0, model["num_classes"], (batch,))
    with torch.no_grad():
        tensors["eval/logits"] = net.eval()(tensors["input/image"]).clone()
    logits = net.train()(tensors["input/image"])
    loss = F.cross_entropy(logits, tensors["target"])
    loss.backward()
    tensors["output/logits"], tensors["output/loss"] = logits.detach().clone(), loss.detach().clone()
    tensors.update({"grad/" + n: p.grad.clone() for n, p in net.named_parameters() if p.grad is not None})
    metadata = {"model": json.dumps(model)}
    if trained is not None:
        metadata["trainable"] = json.dumps(trained)
    if opt is not None:
        metadata["optimizer"] = json.dumps(opt)
        optimizer(opt, [p for p in net.parameters() if p.requires_grad]).step()
        tensors.update(floating(net.state_dict(), "after/"))
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata=metadata)
    print(f"{path}: {os.path.getsize(path)} bytes, loss {loss.item():.6f}")


out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "references")
os.makedirs(out, exist_ok=True)
for case, arguments in CASES.items():
    write(os.path.join(out, case + ".safetensors"), *arguments)
