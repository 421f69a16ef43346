#!/usr/bin/env python3
"""Small segmenters and PVTs, one safetensors file a case, as `lacuna verify` reads them.

    pip install torch torchvision timm transformers safetensors
    make_segmentation_references.py [OUT]        OUT is by default references/ beside this script
    make_segmentation_references.py OUT classifier   timm's PVTv2 as a classifier, and transformers' SegFormer on it
    make_segmentation_references.py OUT full     models at full size, computed in f64: `lacuna verify` reads them, hundreds of MiB each

FCN and DeepLabv3 are torchvision's on timm's ResNet, which has narrow forms; UperNet and SegFormer are transformers', with the
names of their files; pvt_v2 is timm's. No package holds the others: Semantic FPN follows mmsegmentation's FPN and FPNHead, the
linear head DINOv2's BNHead on timm's ViT, pvt the figures of Wang et al. 2021. Results of cases named f64 are computed in f64
from the same f32 weights and images. Label 255 is ignored.
"""
import copy, fnmatch, json, os, sys, tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

SGD = dict(name="sgd", lr=0.02, momentum=0.9, weight_decay=1e-4)
RESNET = dict(block="bottleneck", layers=[1, 1, 2, 1], channels=[4, 4, 5, 6], stem_width=6)
DILATED = dict(RESNET, output_stride=8)
VIT = dict(family="vit", embed_dim=12, depth=2, num_heads=3, patch_size=8)
SWIN = dict(family="swin", image_size=[64, 64], embed_dim=4, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=2)
CONVNEXT = dict(family="convnext", hidden_sizes=[5, 6, 8, 10], depths=[1, 1, 2, 1])
PVT = dict(image_size=[64, 64], num_classes=6, embed_dims=[6, 8, 12, 16], num_heads=[1, 2, 3, 4], mlp_ratios=[3, 3, 2, 2],
           depths=[1, 1, 2, 1], sr_ratios=[8, 4, 2, 1])
AUX = dict(aux_weight=0.5)
FCN = dict(family="fcn", backbone=DILATED, num_classes=4, image_size=[35, 44], aux=True, loss=AUX)
CASES = {  # (model, optimizer or None, trained patterns or None)
    "fcn": (FCN, SGD, None),
    "fcn-only-classifier-f64": (FCN, None, ["classifier*"]),
    "deeplabv3-f64": (dict(FCN, family="deeplabv3", atrous_rates=[1, 2, 3], head_channels=6), None, None),
    "deeplabv3-no-aux": (dict(FCN, family="deeplabv3", atrous_rates=[1, 2, 4], head_channels=6, aux=False, loss={},
                              batch=4, image_size=[24, 32]), SGD, None),
    "semantic_fpn-f64": (dict(family="semantic_fpn", backbone=RESNET, num_classes=5, image_size=[40, 56], fpn_channels=6,
                              head_channels=5, loss={}), None, None),
    "linear_segmenter": (dict(family="linear_segmenter", backbone=VIT, num_classes=4, image_size=[32, 48], map_norm=True,
                              loss={}),
                         SGD, ["decode_head*"]),
    "segformer-f64": (dict(family="segformer", num_classes=5, image_size=[64, 96], hidden_sizes=[6, 8, 12, 16],
                           depths=[1, 2, 1, 1], num_attention_heads=[1, 2, 3, 4], sr_ratios=[8, 4, 2, 1], mlp_ratios=[3, 3, 2, 2],
                           decoder_hidden_size=9, loss={}), None, None),
    "upernet-swin-f64": (dict(family="upernet", backbone=SWIN, num_classes=2, image_size=[64, 64], hidden_size=4, aux_channels=4,
                              loss=dict(aux_weight=0.4)), None, None),
    # maps that are no multiples of the window, and smaller than it
    "upernet-swin-padded-f64": (dict(family="upernet", backbone=dict(SWIN, image_size=26, patch_size=2, embed_dim=3,
                                                                     window_size=3, depths=[2, 2, 1, 1], mlp_ratio=0.5),
                                     num_classes=2, image_size=[26, 10], hidden_size=2, aux_channels=2, batch=3, loss=dict(aux_weight=0.4)), None, None),
    "upernet-convnext-only-heads": (dict(family="upernet", backbone=CONVNEXT, num_classes=4, image_size=[64, 40], hidden_size=6,
                                         aux_channels=5, loss=dict(aux_weight=0.4), batch=4), SGD,
                                    ["decode_head*", "auxiliary_head*"]),
    "pvt-f64": (dict(PVT, family="pvt"), None, None),
    "pvt_v2": (dict(PVT, family="pvt_v2"), SGD, None),
}
WHOLE = dict(block="bottleneck", layers=[3, 4, 6, 3], channels=[64, 128, 256, 512], stem_width=64)
LARGE = dict(num_classes=150, image_size=[96, 128], loss={})
FULL = {
    "fcn_resnet50-f64": dict(LARGE, family="fcn", backbone=dict(WHOLE, output_stride=8), num_classes=21, aux=True, loss=AUX),
    "deeplabv3_resnet101-f64": dict(LARGE, family="deeplabv3", backbone=dict(WHOLE, layers=[3, 4, 23, 3], output_stride=8),
                                    num_classes=21, atrous_rates=[12, 24, 36], head_channels=256, aux=True, loss=AUX),
    "semantic_fpn_resnet50-f64": dict(LARGE, family="semantic_fpn", backbone=WHOLE, fpn_channels=256, head_channels=128),
    "linear_vit_small-f64": dict(LARGE, family="linear_segmenter", map_norm=True, image_size=[112, 112],
                                 backbone=dict(family="vit", embed_dim=384, depth=12, num_heads=6, patch_size=14)),
    "segformer_b0-f64": dict(LARGE, family="segformer", hidden_sizes=[32, 64, 160, 256], depths=[2, 2, 2, 2],
                             num_attention_heads=[1, 2, 5, 8], sr_ratios=[8, 4, 2, 1], mlp_ratios=[4, 4, 4, 4],
                             decoder_hidden_size=256),
    "upernet_swin_tiny-f64": dict(LARGE, family="upernet", hidden_size=512, aux_channels=256, image_size=[224, 224],
                                  backbone=dict(family="swin", image_size=[224, 224], embed_dim=96, depths=[2, 2, 6, 2],
                                                num_heads=[3, 6, 12, 24], window_size=7), loss=dict(aux_weight=0.4)),
    "upernet_convnext_tiny-f64": dict(LARGE, family="upernet", hidden_size=512, aux_channels=256, loss=dict(aux_weight=0.4),
                                      backbone=dict(family="convnext", hidden_sizes=[96, 192, 384, 768], depths=[3, 3, 9, 3])),
    "pvt_tiny-f64": dict(family="pvt", image_size=[224, 224], num_classes=1000, embed_dims=[64, 128, 320, 512], depths=[2, 2, 2, 2],
                         num_heads=[1, 2, 5, 8], mlp_ratios=[8, 8, 4, 4], sr_ratios=[8, 4, 2, 1]),
    "pvt_v2_b2-f64": dict(family="pvt_v2", image_size=[224, 224], num_classes=1000, embed_dims=[64, 128, 320, 512],
                          depths=[3, 4, 6, 3], num_heads=[1, 2, 5, 8], mlp_ratios=[8, 8, 4, 4], sr_ratios=[8, 4, 2, 1]),
}


def resized(x, size):
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def resnet(b):
    from timm.models.resnet import BasicBlock, Bottleneck, ResNet, make_blocks
    block = Bottleneck if b["block"] == "bottleneck" else BasicBlock
    net = ResNet(block, b["layers"], channels=tuple(b["channels"]))
    # A narrower stem than timm's, and stages for what comes out of it.
    net.conv1, net.bn1 = nn.Conv2d(3, b["stem_width"], 7, 2, 3, bias=False), nn.BatchNorm2d(b["stem_width"])
    stages, _ = make_blocks((block,) * 4, tuple(b["channels"]), tuple(b["layers"]), b["stem_width"],
                            output_stride=b.get("output_stride", 32))
    for name, stage in stages:
        setattr(net, name, stage)
    return net, [c * block.expansion for c in b["channels"]]


def torchvision_segmenter(m):
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.segmentation.deeplabv3 import ASPP, DeepLabV3
    from torchvision.models.segmentation.fcn import FCN as Fcn, FCNHead
    net, channels = resnet(m["backbone"])
    body = IntermediateLayerGetter(net, {"layer4": "out", **({"layer3": "aux"} if m["aux"] else {})})
    aux = FCNHead(channels[2], m["num_classes"]) if m["aux"] else None
    if m["family"] == "fcn":
        return Fcn(body, FCNHead(channels[3], m["num_classes"]), aux)
    wide = m["head_channels"]
    return DeepLabV3(body, nn.Sequential(ASPP(channels[3], m["atrous_rates"], wide), nn.Conv2d(wide, wide, 3, padding=1, bias=False),
                                         nn.BatchNorm2d(wide), nn.ReLU(), nn.Conv2d(wide, m["num_classes"], 1)), aux)


def conv(i, o, kernel, norm):
    """mmcv's ConvModule."""
    layers = {"conv": nn.Conv2d(i, o, kernel, padding=kernel // 2, bias=not norm)}
    if norm:
        layers.update(bn=nn.BatchNorm2d(o), act=nn.ReLU())
    module = nn.Sequential()
    for name, layer in layers.items():
        module.add_module(name, layer)
    return module


class SemanticFpn(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.backbone, channels = resnet(m["backbone"])
        del self.backbone.fc
        self.neck, self.decode_head = nn.Module(), nn.Module()
        self.neck.lateral_convs = nn.ModuleList(conv(c, m["fpn_channels"], 1, False) for c in channels)
        self.neck.fpn_convs = nn.ModuleList(conv(m["fpn_channels"], m["fpn_channels"], 3, False) for _ in channels)
        scales = []
        for level in range(4):
            layers = []
            for k in range(max(1, level)):
                layers.append(conv(m["head_channels"] if k else m["fpn_channels"], m["head_channels"], 3, True))
                if level:
                    layers.append(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False))
            scales.append(nn.Sequential(*layers))
        self.decode_head.scale_heads = nn.ModuleList(scales)
        self.decode_head.conv_seg = nn.Conv2d(m["head_channels"], m["num_classes"], 1)

    def forward(self, x):
        b, maps = self.backbone, []
        x = b.maxpool(b.act1(b.bn1(b.conv1(x))))
        for stage in (b.layer1, b.layer2, b.layer3, b.layer4):
            x = stage(x)
            maps.append(x)
        maps = [lateral(x) for lateral, x in zip(self.neck.lateral_convs, maps)]
        for i in (3, 2, 1):
            maps[i - 1] = maps[i - 1] + F.interpolate(maps[i], size=maps[i - 1].shape[2:], mode="nearest")
        maps = [fpn(x) for fpn, x in zip(self.neck.fpn_convs, maps)]
        scaled = [scale(x) for scale, x in zip(self.decode_head.scale_heads, maps)]
        return self.decode_head.conv_seg(sum(resized(x, scaled[0].shape[2:]) for x in scaled))


class LinearSegmenter(nn.Module):
    def __init__(self, m):
        from timm.models.vision_transformer import VisionTransformer
        super().__init__()
        b = m["backbone"]
        self.grid = [side // b["patch_size"] for side in m["image_size"]]
        self.backbone = VisionTransformer(img_size=tuple(m["image_size"]), patch_size=b["patch_size"], embed_dim=b["embed_dim"],
                                          depth=b["depth"], num_heads=b["num_heads"], num_classes=0)
        self.decode_head = nn.Module()
        self.decode_head.bn = nn.BatchNorm2d(b["embed_dim"])
        self.decode_head.conv_seg = nn.Conv2d(b["embed_dim"], m["num_classes"], 1)

    def forward(self, x):
        tokens = self.backbone.forward_features(x)[:, 1:]
        x = tokens.transpose(1, 2).reshape(len(x), -1, *self.grid)
        return self.decode_head.conv_seg(self.decode_head.bn(x))


def transformers_segmenter(m):
    import transformers as t
    if m["family"] == "segformer":
        keys = ("hidden_sizes", "depths", "num_attention_heads", "sr_ratios", "mlp_ratios", "decoder_hidden_size")
        return t.SegformerForSemanticSegmentation(t.SegformerConfig(
            num_labels=m["num_classes"], classifier_dropout_prob=0.0, drop_path_rate=0.0, attn_implementation="sdpa",
            **{key: m[key] for key in keys}))
    own = {key: value for key, value in m["backbone"].items() if key != "family"}
    kind = t.ConvNextConfig if m["backbone"]["family"] == "convnext" else t.SwinConfig
    more = dict(attn_implementation="sdpa") if kind is t.SwinConfig else {}
    backbone = kind(out_features=[f"stage{i}" for i in range(1, 5)], drop_path_rate=0.0, **own, **more)
    return t.UperNetForSemanticSegmentation(t.UperNetConfig(
        backbone_config=backbone, hidden_size=m["hidden_size"], auxiliary_channels=m["aux_channels"], num_labels=m["num_classes"]))


class PvtBlock(nn.Module):
    def __init__(self, width, heads, mlp, ratio):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.q, self.attn.kv, self.attn.proj = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        if ratio > 1:
            self.attn.sr, self.attn.norm = nn.Conv2d(width, width, ratio, ratio), nn.LayerNorm(width)
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, width * mlp), nn.Linear(width * mlp, width)

    def attend(self, x, grid):
        n, length, width = x.shape
        split = lambda t: t.reshape(n, -1, self.heads, width // self.heads).transpose(1, 2)
        q = split(self.attn.q(x))
        if hasattr(self.attn, "sr"):
            x = self.attn.norm(self.attn.sr(x.transpose(1, 2).reshape(n, width, *grid)).flatten(2).transpose(1, 2))
        k, v = map(split, self.attn.kv(x).chunk(2, -1))
        return self.attn.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width))

    def forward(self, x, grid):
        x = x + self.attend(self.norm1(x), grid)
        return x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))


class Pvt(nn.Module):
    """The names are those of the authors' files."""
    def __init__(self, m):
        super().__init__()
        self.grids, before = [tuple(side // stride for side in m["image_size"]) for stride in (4, 8, 16, 32)], 3
        for i, width in enumerate(m["embed_dims"]):
            embed = nn.Module()
            embed.proj, embed.norm = nn.Conv2d(before, width, 2 if i else 4, 2 if i else 4), nn.LayerNorm(width)
            rows, before = self.grids[i][0] * self.grids[i][1] + (i == 3), width
            setattr(self, f"patch_embed{i + 1}", embed)
            setattr(self, f"pos_embed{i + 1}", nn.Parameter(torch.zeros(1, rows, width)))
            setattr(self, f"block{i + 1}", nn.ModuleList(
                PvtBlock(width, m["num_heads"][i], m["mlp_ratios"][i], m["sr_ratios"][i]) for _ in range(m["depths"][i])))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, before))
        self.norm, self.head = nn.LayerNorm(before, 1e-6), nn.Linear(before, m["num_classes"])

    def forward(self, x):
        for i, grid in enumerate(self.grids):
            embed = getattr(self, f"patch_embed{i + 1}")
            x = embed.norm(embed.proj(x).flatten(2).transpose(1, 2))
            if i == 3:
                x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1)
            x = x + getattr(self, f"pos_embed{i + 1}")
            for block in getattr(self, f"block{i + 1}"):
                x = block(x, grid)
            if i < 3:
                x = x.transpose(1, 2).reshape(len(x), -1, *grid)
        return self.head(self.norm(x)[:, 0])


def pvt_v2(m):
    from timm.models.pvt_v2 import PyramidVisionTransformerV2
    keys = ("embed_dims", "num_heads", "mlp_ratios", "depths", "sr_ratios")
    return PyramidVisionTransformerV2(num_classes=m["num_classes"], **{key: tuple(m[key]) for key in keys})


BUILDERS = {"fcn": torchvision_segmenter, "deeplabv3": torchvision_segmenter, "semantic_fpn": SemanticFpn,
            "linear_segmenter": LinearSegmenter, "segformer": transformers_segmenter, "upernet": transformers_segmenter,
            "pvt": Pvt, "pvt_v2": pvt_v2}


def names_in_files(net):
    """From a name in memory to that in files: transformers' differ."""
    if not hasattr(net, "save_pretrained"):
        return lambda name: name
    numbered = copy.deepcopy(net)
    names = [name for name, value in numbered.state_dict().items() if value.is_floating_point()]
    for i, name in enumerate(names):
        numbered.state_dict()[name].fill_(i)
    with tempfile.TemporaryDirectory() as folder:
        numbered.save_pretrained(folder)
        saved = load_file(os.path.join(folder, "model.safetensors"))
    found = {names[int(value.flatten()[0])]: name for name, value in saved.items() if value.is_floating_point()}
    return found.__getitem__


def outputs_of(net, m, images):
    """Logits of the size that the library gives, by name."""
    if m["family"] == "upernet":
        maps = net.backbone(images).feature_maps
        return {"logits": resized(net.decode_head(maps), images.shape[2:]),
                "aux_logits": resized(net.auxiliary_head(maps), images.shape[2:])}
    if m["family"] == "segformer":
        return {"logits": net(images).logits}
    found = net(images)
    if isinstance(found, dict):
        return {"logits": found["out"], **({"aux_logits": found["aux"]} if "aux" in found else {})}
    return {"logits": resized(found, images.shape[2:]) if "loss" in m else found}


def write(path, m, opt, trained):
    double = "f64" in os.path.basename(path)
    torch.manual_seed(1)
    net = BUILDERS[m["family"]](m)
    for module in net.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout2d)):
            module.p = 0.0
    with torch.no_grad():
        for tensor in list(net.parameters()) + [b for b in net.buffers() if b.is_floating_point() and b.dim() == 1]:
            # A small change to each weight of a wide layer.
            wide = "full" in sys.argv[2:] and tensor.dim() > 1 and tensor[0].numel() > 256
            tensor.add_((torch.rand_like(tensor) - 0.5) * 0.05 if wide else torch.rand_like(tensor) * 0.3 - 0.1)
    name_of = names_in_files(net)
    for name, p in net.named_parameters():
        p.requires_grad_(trained is None or any(fnmatch.fnmatch(name_of(name), pattern) for pattern in trained))
    state = lambda prefix: {prefix + name_of(name): value.clone() for name, value in net.state_dict().items()
                            if value.is_floating_point()}
    tensors = state("weight/")
    segments, (height, width), samples = "loss" in m, m["image_size"], m.pop("batch", 2)
    images = torch.randn(samples, 3, height, width)
    if segments:
        target = F.interpolate(torch.rand(samples, 1, 3, 4) * m["num_classes"], size=(height, width), mode="nearest")[:, 0].long()
        target[torch.rand(target.shape) < 0.15] = 255
    else:
        target = torch.randint(0, m["num_classes"], (samples,))
    tensors.update({"input/image": images, "target": target})
    if double:
        net, images = net.double(), images.double()
    with torch.no_grad():
        logits = outputs_of(net.eval(), m, images)["logits"]
        tensors["eval/logits"] = logits.clone()
        if segments:
            tensors["eval/classes"] = resized(logits, (height, width)).argmax(1)
    found = outputs_of(net.train(), m, images)
    loss = 0
    for name, weight in (("logits", 1.0), ("aux_logits", m.get("loss", {}).get("aux_weight", 0))):
        if name in found:
            scores = resized(found[name], (height, width)) if segments else found[name]
            loss = loss + weight * F.cross_entropy(scores, target, ignore_index=255)
    loss.backward()
    tensors.update({"output/" + name: value.detach().clone() for name, value in found.items()})
    tensors["output/loss"] = loss.detach().clone()
    gradients = {name_of(name): p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
    largest = max(value.abs().max().item() for value in gradients.values())
    # What rounding leaves where the gradient is 0: a bias before a batch norm, or of keys.
    zero = [name for name, value in gradients.items() if value.abs().max().item() < (1e-12 if double else 1e-6) * largest]
    tensors.update({"grad/" + name: value for name, value in gradients.items() if name not in zero})
    metadata = {"model": json.dumps(m)}
    if zero:
        metadata["zero_gradients"] = json.dumps(zero)
    if trained is not None:
        metadata["trainable"] = json.dumps(trained)
    if opt is not None:
        metadata["optimizer"] = json.dumps(opt)
        torch.optim.SGD([p for p in net.parameters() if p.requires_grad], **{k: v for k, v in opt.items() if k != "name"}).step()
        tensors.update(state("after/"))
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata=metadata)
    print(f"{path}: {os.path.getsize(path)} bytes, loss {loss.item():.6f}, gradients of 0: {zero}")


def write_classifier(path):
    m = CASES["segformer-f64"][0]
    torch.manual_seed(1)
    classifier = pvt_v2(dict(m, embed_dims=m["hidden_sizes"], num_heads=m["num_attention_heads"]))
    net = transformers_segmenter(m).eval()
    with torch.no_grad():
        for tensor in [*classifier.parameters(), *net.decode_head.parameters()]:
            tensor.add_(torch.rand_like(tensor) * 0.3 - 0.1)
    name_of = names_in_files(net)
    saved = {name_of(name): value for name, value in net.state_dict().items() if value.is_floating_point()}
    layers = {"downsample.proj": "proj", "downsample.norm": "layer_norm", "norm1": "layer_norm_1", "norm2": "layer_norm_2",
              "attn.q": "attention.self.query", "attn.sr": "attention.self.sr", "attn.norm": "attention.self.layer_norm",
              "attn.proj": "attention.output.dense", "mlp.fc1": "mlp.dense1", "mlp.dwconv": "mlp.dwconv.dwconv", "mlp.fc2": "mlp.dense2"}
    left = {name for name in saved if not name.startswith("decode_head.")}

    def put(name, value):
        saved["segformer.encoder." + name].copy_(value)
        left.remove("segformer.encoder." + name)

    for name, value in classifier.state_dict().items():
        path_of, kind = name.rsplit(".", 1)
        first, *rest = path_of.split(".")
        if first == "head":
            continue
        if first == "patch_embed":
            stage, layer = 0, "downsample." + rest[0]
        else:
            stage, layer = int(rest[0]), ".".join(rest[1:])
        if layer == "norm":
            put(f"layer_norm.{stage}.{kind}", value)
        elif layer.startswith("downsample."):
            put(f"patch_embeddings.{stage}.{layers[layer]}.{kind}", value)
        else:
            _, block, layer = layer.split(".", 2)
            if layer == "attn.kv":
                for part, half in zip(("key", "value"), value.chunk(2)):
                    put(f"block.{stage}.{block}.attention.self.{part}.{kind}", half)
            else:
                put(f"block.{stage}.{block}.{layers[layer]}.{kind}", value)
    assert not left, left
    images = torch.randn(2, 3, *m["image_size"])
    tensors = {"classifier/" + name: value for name, value in classifier.state_dict().items()}
    tensors.update({"head/" + name: value for name, value in saved.items() if name.startswith("decode_head.")})
    with torch.no_grad():
        tensors.update({"input/images": images.permute(0, 2, 3, 1), "eval/logits": net(images).logits.permute(0, 2, 3, 1)})
    save_file({name: value.contiguous().clone() for name, value in tensors.items()}, path)
    print(f"{path}: {os.path.getsize(path)} bytes")


if "classifier" in sys.argv[2:]:
    write_classifier(os.path.join(sys.argv[1], "pvt_v2.safetensors"))
    sys.exit()
out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "references")
os.makedirs(out, exist_ok=True)
for case, arguments in {name: (model, None, None) for name, model in FULL.items()}.items() if "full" in sys.argv[2:] else CASES.items():
    write(os.path.join(out, case + ".safetensors"), *arguments)
