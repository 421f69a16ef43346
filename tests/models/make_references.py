#!/usr/bin/env python3
"""Small whole-model references from timm, one safetensors file a case, as `lacuna verify` reads them.

    pip install torch timm safetensors numpy
    make_references.py [OUT [CASE ...]]           OUT is by default references/ beside this script
    make_references.py OUT f64:resnet50@224 ...   a model of timm at full size, computed in f64: `verify --precision f64`

Odd shapes and rare options, each file small enough to live beside the tests. A model is described by Lacuna's
hyper-parameters; `build` says what they are in timm. Weights are moved away from zero and one, so that a swapped or
forgotten parameter shows.
"""
import fnmatch, json, os, sys
from functools import partial

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.layers import ClassifierHead, SwiGLUPacked, get_act_layer
from timm.models.convnext import ConvNeXt
from timm.models._efficientnet_blocks import SqueezeExcite
from timm.models._efficientnet_builder import decode_arch_def, round_channels
from timm.models.deit import VisionTransformerDistilled
from timm.models.efficientnet import EfficientNet
from timm.models.mobilenetv3 import MobileNetV3
from timm.models.resnet import BasicBlock, Bottleneck, ResNet, make_blocks
from timm.models.swin_transformer import SwinTransformer
from timm.models.swin_transformer_v2 import SwinTransformerV2
from timm.models.vgg import ConvMlp, VGG as VGG_
from timm.models.vision_transformer import VisionTransformer

VIT = dict(family="vit", image_size=12, patch_size=4, embed_dim=6, depth=2, num_heads=2, num_classes=5)
RESNET = dict(family="resnet", in_channels=1, image_size=33, layers=[1, 1], channels=[4, 6], num_classes=5)
CIFAR = dict(family="resnet", image_size=10, block="basic", layers=[2, 1], channels=[4, 6], stem="cifar",
             stem_width=4, num_classes=3)
SWIN = dict(family="swin", image_size=24, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=3, num_classes=5)
VGG = dict(family="vgg", image_size=22, layers=[1, 2], channels=[4, 6], hidden=8, head_kernel=5, num_classes=4)
CONVNEXT = dict(family="convnext", image_size=40, depths=[1, 2, 1, 1], dims=[4, 6, 6, 10], ls_init_value=0.3, num_classes=5)
EFFICIENTNET = dict(family="efficientnet", image_size=21, stem_size=8, num_features=12, num_classes=5)
SWIN_V2 = dict(SWIN, family="swin_v2")
ADAMW = dict(name="adamw", lr=1e-3, weight_decay=0.05, betas=[0.9, 0.999], eps=1e-8)
SGD = dict(name="sgd", lr=0.1, momentum=0.9, weight_decay=1e-3)

CASES = {  # model, optimizer, trained (None: all), batch
    "vit-token": (VIT, ADAMW, None, 3),
    "vit-chain": (dict(VIT, attention="chain", activation="gelu_tanh", depth=1), SGD, None, 2),
    "vit-average": (dict(VIT, global_pool="avg", mlp_ratio=1.7, depth=1), ADAMW, None, 2),
    "vit-average-no-token": (dict(VIT, global_pool="avg", class_token=False, qkv_bias=False, depth=1), None, None, 3),
    "vit-registers": (dict(VIT, reg_tokens=2, no_embed_class=True, init_values=0.5, global_pool="avg"), ADAMW, None, 2),
    "vit-swiglu": (dict(VIT, mlp_layer="swiglu", init_values=0.1, depth=1), None, None, 2),
    "vit-pre-norm": (dict(VIT, pre_norm=True, norm_eps=1e-5, activation="quick_gelu", depth=1), None, None, 2),
    "vit-map-pool": (dict(VIT, class_token=False, global_pool="map", depth=1), ADAMW, None, 3),
    "vit-only-scales": (dict(VIT, init_values=0.2), None, ["*gamma", "*fc2.bias"], 2),
    "deit-distilled": (dict(VIT, family="deit_distilled"), ADAMW, None, 3),
    "deit-distilled-only-heads": (dict(VIT, family="deit_distilled", depth=1), None, ["head*", "dist_token"], 2),
    "deit3": (dict(VIT, no_embed_class=True, init_values=0.3), ADAMW, None, 2),
    "vit-one-patch": (dict(VIT, image_size=4, in_channels=2, num_heads=1, depth=1), None, None, 2),
    "vit-only-linear": (VIT, None, ["*qkv*", "*fc?.*"], 2),
    "vit-only-positions": (VIT, None, ["cls_token", "pos_embed"], 2),
    "resnet-basic": (dict(RESNET, block="basic"), None, None, 3),
    "resnet-groups": (dict(RESNET, block="bottleneck", cardinality=2, base_width=48, image_size=17), None, None, 4),
    "resnet-only-bias": (dict(CIFAR, block="bottleneck"), None, ["*bias"], 3),
    "resnet-only-convolutions": (CIFAR, ADAMW, ["*conv*", "*downsample.0*"], 4),
    "resnet-cifar": (CIFAR, SGD, None, 5),
    "resnet-deep-stem": (dict(RESNET, block="bottleneck", stem="deep", stem_width=4, avg_down=True, image_size=32), SGD,
                         None, 3),
    "resnet-average-shortcut": (dict(RESNET, block="basic", image_size=32, avg_down=True, base_width=64), None, None, 3),
    "resnet-average-odd": (dict(RESNET, block="bottleneck", avg_down=True, image_size=36), None, None, 3),
    "resnet-wide": (dict(RESNET, block="bottleneck", base_width=128, in_channels=3), None, None, 4),
    "vgg": (VGG, SGD, None, 3),
    "vgg-norms": (dict(VGG, batch_norm=True), None, None, 3),
    "vgg-only-first": (dict(VGG, layers=[2, 1]), None, ["features.0.*"], 3),
    "vgg-small-map": (dict(VGG, image_size=14), None, None, 3),
    "convnext": (CONVNEXT, ADAMW, None, 2),
    "convnext-no-scale": (dict(CONVNEXT, ls_init_value=0.0, kernel_size=3, image_size=[32, 44]), None, None, 3),
    "convnext-only-depthwise": (dict(CONVNEXT, kernel_size=5), None, ["*conv_dw.*", "*gamma"], 2),
    "efficientnet": (dict(EFFICIENTNET, blocks="ds_r1_k3_s1_c8_se0.25; ir_r2_k5_s2_e2_c8_se0.25; cn_r1_k3_s2_c16"),
                     SGD, None, 3),
    "efficientnet-edge-same": (dict(EFFICIENTNET, image_size=[22, 35], same_padding=True, norm_eps=1e-3,
                                    blocks="cn_r2_k3_s1_c8_skip; er_r2_k3_s2_e2_c8_se0.25; ir_r1_k5_s2_e2_c8_noskip"),
                               ADAMW, None, 4),
    "efficientnet-mobilenetv3": (dict(EFFICIENTNET, form="mobilenetv3", activation="hard_swish", image_size=32, in_channels=1,
                                      blocks="ds_r1_k3_s2_c8_se0.25_nre ir_r1_k3_s1_e1.5_c8; ir_r1_k5_s2_e4_c8_se0.25; "
                                             "cn_r1_k1_s1_c16"), SGD, None, 4),
    "efficientnet-relu6-only-depthwise": (dict(EFFICIENTNET, activation="relu6", image_size=20,
                                               blocks="ir_r2_k3_s2_e2_c8_nsw; cn_r1_k3_s1_c8"),
                                          None, ["*conv_dw*", "*bn?.bias"], 3),
    "vgg-norms-f64": (dict(VGG, batch_norm=True), None, None, 3),
    "swin-shifted": (SWIN, ADAMW, None, 2),
    "swin-padded": (dict(SWIN, image_size=28, depths=[1, 2], mlp_ratio=1.5), None, None, 2),
    "swin-one-axis": (dict(SWIN, image_size=[12, 32], window_size=[3, 2], qkv_bias=False), None, None, 2),
    "swin-only-tables": (dict(SWIN, image_size=20), None, ["*table", "*qkv.bias"], 2),
    "swin_v2-padded": (dict(SWIN_V2, image_size=28, depths=[2, 2]), ADAMW, None, 2),
    "swin_v2-one-axis": (dict(SWIN_V2, image_size=[12, 32], pretrained_window_sizes=[2, 6]), None, None, 3),
    "swin_v2-only-scales": (dict(SWIN_V2, qkv_bias=False, depths=[2], num_heads=[2]), None, ["*logit_scale", "*cpb_mlp*"], 2),
}


def image_size(m):
    size = m["image_size"]
    return tuple(size) if isinstance(size, list) else (size, size)


def vit(m):
    net = VisionTransformerDistilled if m["family"] == "deit_distilled" else VisionTransformer
    more = {key: m[key] for key in ("reg_tokens", "no_embed_class", "init_values", "pre_norm", "class_token") if key in m}
    if m.get("mlp_layer") == "swiglu":
        more["mlp_layer"] = SwiGLUPacked
    if "norm_eps" in m:
        more["norm_layer"] = partial(nn.LayerNorm, eps=m["norm_eps"])
    return net(
        img_size=m["image_size"], patch_size=m["patch_size"], in_chans=m.get("in_channels", 3),
        embed_dim=m["embed_dim"], depth=m["depth"], num_heads=m["num_heads"], num_classes=m["num_classes"],
        mlp_ratio=m.get("mlp_ratio", 4.0), qkv_bias=m.get("qkv_bias", True),
        global_pool=m.get("global_pool", "token"), act_layer="silu" if m.get("mlp_layer") == "swiglu" else m.get("activation", "gelu"), **more)


def swin(m):
    second = dict(pretrained_window_sizes=tuple(m.get("pretrained_window_sizes", [0] * len(m["depths"]))))
    net = SwinTransformerV2 if m["family"] == "swin_v2" else SwinTransformer
    window = m["window_size"]
    return net(img_size=image_size(m), num_classes=m["num_classes"], embed_dim=m["embed_dim"],
               depths=tuple(m["depths"]), num_heads=tuple(m["num_heads"]),
               window_size=tuple(window) if isinstance(window, list) else window, mlp_ratio=m.get("mlp_ratio", 4.0),
               qkv_bias=m.get("qkv_bias", True), drop_path_rate=0.0,
               **(second if m["family"] == "swin_v2" else {}))


def resnet(m):
    block = BasicBlock if m["block"] == "basic" else Bottleneck
    groups = dict(cardinality=m.get("cardinality", 1), base_width=m.get("base_width", 64))
    more = dict(stem_type="deep", stem_width=m["stem_width"]) if m.get("stem") == "deep" else {}
    net = ResNet(block, m["layers"], channels=tuple(m["channels"]), in_chans=m.get("in_channels", 3),
                 num_classes=m["num_classes"], avg_down=m.get("avg_down", False), **groups, **more)
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


def vgg(m):
    stages = [[channels] * layers + ["M"] for layers, channels in zip(m["layers"], m["channels"])]
    net = VGG_(sum(stages, []), num_classes=m["num_classes"],
               norm_layer=nn.BatchNorm2d if m.get("batch_norm") else None)
    hidden = m["hidden"]                        # timm always has 4096 features and a window of 7
    net.pre_logits = ConvMlp(m["channels"][-1], hidden, m["head_kernel"], drop_rate=0.0)
    net.head = ClassifierHead(hidden, m["num_classes"], pool_type="avg")
    return net


def convnext(m):
    return ConvNeXt(num_classes=m["num_classes"], depths=tuple(m["depths"]), dims=tuple(m["dims"]),
                    kernel_sizes=m.get("kernel_size", 7), ls_init_value=m["ls_init_value"] or None)


def efficientnet(m):
    v3 = m.get("form") == "mobilenetv3"
    squeeze = dict(se_layer=partial(SqueezeExcite, gate_layer="hard_sigmoid", force_act_layer=nn.ReLU,
                                    rd_round_fn=round_channels)) if v3 else {}
    return (MobileNetV3 if v3 else EfficientNet)(
        decode_arch_def([stage.split() for stage in m["blocks"].split(";")]), num_classes=m["num_classes"],
        in_chans=m.get("in_channels", 3), num_features=m["num_features"], stem_size=m["stem_size"], fix_stem=True,
        pad_type="same" if m.get("same_padding") else "", round_chs_fn=lambda channels: channels,
        norm_layer=partial(nn.BatchNorm2d, eps=m.get("norm_eps", 1e-5)), act_layer=get_act_layer(m.get("activation", "silu")), **squeeze)


def preset(m):
    more = {} if m["name"].startswith("vgg") else dict(drop_path_rate=0.0)
    if not m["name"].startswith(("resnet", "resnext", "wide", "vgg", "convnext", "efficientnet", "mobilenet", "tf_")):
        more["img_size"] = m["image_size"]
    return timm.create_model(m["name"], num_classes=m["num_classes"], **more)


BUILDERS = dict(preset=preset, vgg=vgg, convnext=convnext, efficientnet=efficientnet, vit=vit, deit_distilled=vit, resnet=resnet, swin=swin, swin_v2=swin)


def optimizer(o, parameters):
    o = dict(o)
    return {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[o.pop("name")](parameters, **o)


def floating(state, prefix):
    return {prefix + name: value.detach().clone() for name, value in state.items() if value.is_floating_point()}


def write(path, model, opt, trained, batch):
    double = "f64" in os.path.basename(path)    # from f32 weights and images
    torch.manual_seed(1)
    net = BUILDERS[model["family"]](model)
    with torch.no_grad():
        for p in net.parameters():
            # At full size matrices are wide; zeros (a residual branch's last norm) would hide a whole branch.
            p.add_(torch.randn_like(p) * (0.1 if model["family"] != "preset" or p.dim() < 2 else 0.02))
    for name, p in net.named_parameters():
        p.requires_grad_(trained is None or any(fnmatch.fnmatch(name, pattern) for pattern in trained))
    tensors = floating(net.state_dict(), "weight/")
    net = net.double() if double else net
    tensors["input/image"] = torch.randn(batch, model.get("in_channels", 3), *image_size(model))
    tensors["target"] = torch.randint(0, model["num_classes"], (batch,))
    images = tensors["input/image"].double() if double else tensors["input/image"]
    with torch.no_grad():
        tensors["eval/logits"] = net.eval()(images).clone()
    net.train()
    if hasattr(net, "set_distilled_training"):
        net.set_distilled_training(True)
    outputs = net(images)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)     # two heads: the mean of their losses
    loss = sum(F.cross_entropy(logits, tensors["target"]) for logits in outputs) / len(outputs)
    loss.backward()
    for name, logits in zip(("output/logits", "output/logits_dist"), outputs):
        tensors[name] = logits.detach().clone()
    tensors["output/loss"] = loss.detach().clone()
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
if unknown := [name for name in sys.argv[2:] if name not in CASES and not name.startswith("f64:")]:
    sys.exit(f"no case is named {', '.join(unknown)}: there are {', '.join(CASES)}, and f64:ARCHITECTURE@SIDE")
os.makedirs(out, exist_ok=True)
for name in sys.argv[2:]:
    if name.startswith("f64:"):
        architecture, side = name[4:].split("@")
        model = dict(family="preset", name=architecture, image_size=int(side), num_classes=10)
        write(os.path.join(out, f"{architecture}-f64.safetensors"), model, None, None, 2)
for case, arguments in CASES.items():
    if len(sys.argv) > 2 and case not in sys.argv[2:]:
        continue
    write(os.path.join(out, case + ".safetensors"), *arguments)
