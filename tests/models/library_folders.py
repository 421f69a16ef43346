#!/usr/bin/env python3
"""Small random models as folders of timm and transformers, and what these libraries make of folders.

    library_folders.py make OUT [fixtures]   # folders OUT/NAME and what they give: OUT/NAME.safetensors
    library_folders.py read CASES.json       # [{"folder", "library", "images", "logits"}]: writes each `logits`

`fixtures`: those that are kept in tests/models/folders, made with timm 1.0.31 and transformers 5.24. Nothing is
downloaded. A case file holds `images` [N, C, H, W] and `logits` [N, classes]; its metadata may say with which
hyper-parameters the folder is to be loaded.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

CLASSES = 5
VIT = dict(img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3)
SWIN = dict(img_size=32, window_size=4, embed_dim=16, depths=(2, 1), num_heads=(2, 4))
RESNET = dict(layers=(1, 1, 1, 1), channels=(4, 8, 8, 16))
TIMM = {  # name: architecture, arguments, arguments to load it with (ours, theirs)
    "timm-vit": ("vit_tiny_patch16_224", VIT, {}, {}),
    "timm-vit-larger": ("vit_tiny_patch16_224", VIT, {"image_size": 48}, {"img_size": 48}),
    "timm-vit-grey": ("vit_tiny_patch16_224", VIT, {"in_channels": 1}, {"in_chans": 1}),
    "timm-vit-five-channels": ("vit_tiny_patch16_224", VIT, {"in_channels": 5}, {"in_chans": 5}),
    "timm-deit3": ("deit3_small_patch16_224", VIT, {}, {}),
    "timm-registers": ("vit_small_patch14_reg4_dinov2", VIT, {}, {}),
    "timm-deit-distilled": ("deit_tiny_distilled_patch16_224", VIT, {}, {}),
    "timm-swin": ("swin_tiny_patch4_window7_224", SWIN, {}, {}),
    "timm-swin-larger": ("swin_tiny_patch4_window7_224", SWIN, {"image_size": 48}, {"img_size": 48}),
    "timm-swinv2": ("swinv2_tiny_window8_256", SWIN, {}, {}),
    "timm-resnet": ("resnet18", RESNET, {}, {}),
    "timm-resnet-grey": ("resnet50", RESNET, {"in_channels": 1}, {"in_chans": 1}),
    "timm-resnet-d": ("resnet50d", dict(RESNET, stem_width=8), {}, {}),
    "timm-efficientnet": ("tf_efficientnet_b0", {}, {}, {}),
    "timm-mobilenetv3": ("mobilenetv3_small_100", dict(bn_eps=1e-3), {}, {}),
    "timm-convnext": ("convnext_tiny", dict(depths=(1, 1, 2, 1), dims=(8, 8, 16, 16)), {}, {}),
}
FIXTURES = ["timm-vit", "timm-vit-larger", "timm-swin", "timm-resnet-d", "hf-vit", "hf-vit-larger", "hf-deit", "hf-swin",
            "hf-swinv2", "hf-resnet", "hf-convnext"]


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        if not tensor.is_floating_point() or "index" in name or "coords" in name:
            continue
        noise = torch.randn(tensor.shape, generator=generator)
        if "running_var" in name:
            value = 1 + 0.2 * noise.abs()
        elif "logit_scale" in name:
            value = 2 + 0.1 * noise
        elif tensor.ndim == 1:
            value = ("weight" in name or "gamma" in name or "scale" in name) + 0.1 * noise
        else:
            value = noise / max(1, tensor[0].numel()) ** 0.5
        tensor.data.copy_(value)
    return model.eval()


def images(channels, side):
    return torch.randn(2, channels, side, side, generator=torch.Generator().manual_seed(11))


def write_case(out, name, pixels, logits, arguments):
    metadata = {"arguments": json.dumps(arguments)}
    save_file({"images": pixels, "logits": logits.float().contiguous()}, out / f"{name}.safetensors", metadata)


def make_timm(out, wanted):
    import timm
    from timm.models import save_for_hf

    for seed, (name, (architecture, arguments, ours, theirs)) in enumerate(TIMM.items()):
        if name not in wanted:
            continue
        model = randomize(timm.create_model(architecture, num_classes=CLASSES, **arguments), seed)
        save_for_hf(model, out / name, safe_serialization=True,
                    model_config={"label_names": [f"class {i}" for i in range(CLASSES)]})
        loaded = timm.create_model(f"local-dir:{out / name}", pretrained=True, **theirs).eval()
        pixels = images(theirs.get("in_chans", 3), theirs.get("img_size", arguments.get("img_size", 32)))
        if "img_size" not in arguments:
            ours = dict(ours, image_size=32)
        with torch.no_grad():
            write_case(out, name, pixels, loaded(pixels), ours)
    if "timm-background" in wanted:  # a row before the classes
        model = randomize(timm.create_model("vit_tiny_patch16_224", num_classes=CLASSES + 1, **VIT), 99)
        save_for_hf(model, out / "timm-background", safe_serialization=True)
        config = json.loads((out / "timm-background/config.json").read_text())
        config["num_classes"] = config["pretrained_cfg"]["num_classes"] = CLASSES
        config["pretrained_cfg"]["label_offset"] = 1
        config["model_args"].pop("num_classes", None)
        (out / "timm-background/config.json").write_text(json.dumps(config))
        with torch.no_grad():
            pixels = images(3, 32)
            write_case(out, "timm-background", pixels, model(pixels)[:, 1:], {})


def transformers_models():
    import transformers as hf

    labels = {"id2label": {i: f"class {i}" for i in range(CLASSES)}}
    vit = dict(image_size=32, patch_size=8, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
               intermediate_size=56, **labels)
    # maps of 7 and 4 pixels, which no window divides
    swin = dict(image_size=28, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=3, **labels)
    resnet = dict(embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], **labels)
    return {  # name: model, hyper-parameters to load it with, side of the images
        "hf-vit": (lambda: hf.ViTForImageClassification(hf.ViTConfig(**vit)), {}, 32),
        "hf-vit-larger": (lambda: hf.ViTForImageClassification(hf.ViTConfig(**vit)), {"image_size": 56}, 56),
        "hf-vit-smaller": (lambda: hf.ViTForImageClassification(hf.ViTConfig(**vit)), {"image_size": 24}, 24),
        "hf-vit-sharded": (lambda: hf.ViTForImageClassification(hf.ViTConfig(**vit)), {}, 32),
        "hf-deit": (lambda: hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**vit)), {}, 32),
        "hf-swin": (lambda: hf.SwinForImageClassification(hf.SwinConfig(**swin)), {}, 28),
        "hf-swinv2": (lambda: hf.Swinv2ForImageClassification(hf.Swinv2Config(**swin)), {}, 28),
        "hf-resnet": (lambda: hf.ResNetForImageClassification(hf.ResNetConfig(**resnet)), {"image_size": 32}, 32),
        "hf-resnet-basic": (lambda: hf.ResNetForImageClassification(hf.ResNetConfig(layer_type="basic", **resnet)),
                            {"image_size": 32}, 32),
        "hf-convnext": (lambda: hf.ConvNextForImageClassification(hf.ConvNextConfig(
            image_size=32, depths=[1, 1, 2, 1], hidden_sizes=[8, 8, 16, 16], **labels)), {}, 32),
    }


def make_transformers(out, wanted):
    import transformers as hf

    for seed, (name, (build, arguments, side)) in enumerate(transformers_models().items()):
        if name not in wanted:
            continue
        torch.manual_seed(seed)
        model = randomize(build(), seed)
        sharded = name in ("hf-vit-sharded", "hf-convnext")
        model.save_pretrained(out / name, **({"max_shard_size": "8KB"} if sharded else {}))
        hf.ViTImageProcessor(size={"height": side, "width": side}, image_mean=[0.5, 0.4, 0.3], image_std=[0.25] * 3,
                             resample=3).save_pretrained(out / name)
        pixels = images(3, side)
        inputs = {"pixel_values": pixels}
        if "vit" in name and "image_size" in arguments:
            inputs["interpolate_pos_encoding"] = True
        with torch.no_grad():
            write_case(out, name, pixels, model(**inputs).logits, arguments)


def read(cases):
    import timm
    import transformers as hf

    for case in cases:
        pixels = load_file(case["images"])["images"]
        with torch.no_grad():
            if case["library"] == "timm":
                logits = timm.create_model(f"local-dir:{case['folder']}", pretrained=True).eval()(pixels)
            else:
                logits = hf.AutoModelForImageClassification.from_pretrained(case["folder"]).eval()(pixels).logits
        save_file({"logits": logits.float().contiguous()}, case["logits"])


if __name__ == "__main__":
    if sys.argv[1] == "make":
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        names = FIXTURES if "fixtures" in sys.argv[3:] else [*TIMM, "timm-background", *transformers_models()]
        make_timm(folder, names)
        make_transformers(folder, names)
    else:
        read(json.loads(Path(sys.argv[2]).read_text()))
