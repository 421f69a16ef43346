#!/usr/bin/env python3
"""The library PEFT's side of tests/models/peft.cpp.

    peft_round_trip.py make FOLDER CASE     a model of timm or transformers, an adapter of PEFT, images and logits
    peft_round_trip.py check FOLDER CASE    the largest relative differences of PEFT's logits, and of the merged model's,
                                            from FOLDER/ours.safetensors
"""
import pathlib
import sys

import peft
import safetensors.torch
import timm
import torch
import transformers

SIDE = 32
RESNET = dict(layers=[1, 1, 1, 1], channels=[16, 16, 24, 32])
VIT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, image_size=SIDE,
           patch_size=8, num_labels=4)
SWIN = dict(image_size=SIDE, patch_size=4, embed_dim=12, depths=[2, 1], num_heads=[1, 2], window_size=4, num_labels=4)

# timm: model, arguments; transformers: class, configuration. Then the targets, in the names of any version; the head.
CASES = {
    "timm-vit": ("vit_tiny_patch16_224", dict(img_size=SIDE, depth=2), ["qkv", "proj", "fc1", "fc2"], ["head"]),
    "timm-resnet": ("resnet50", RESNET, ["conv1", "conv2", "downsample.0"], ["fc"]),
    "timm-groups": ("resnet50", dict(RESNET, cardinality=2, base_width=64), ["conv2"], ["fc"]),
    "hf-vit": (transformers.ViTForImageClassification, transformers.ViTConfig(**VIT),
               ["query", "value", "dense", "q_proj", "v_proj", "o_proj", "fc1", "projection"], ["classifier"]),
    "hf-deit": (transformers.DeiTForImageClassificationWithTeacher, transformers.DeiTConfig(**VIT),
                ["query", "key", "q_proj", "k_proj"], ["cls_classifier", "distillation_classifier"]),
    "hf-swin": (transformers.SwinForImageClassification, transformers.SwinConfig(**SWIN),
                ["query", "value", "dense", "q_proj", "v_proj", "fc2", "reduction"], ["classifier"]),
    "hf-resnet": (transformers.ResNetForImageClassification,
                  transformers.ResNetConfig(embedding_size=64, hidden_sizes=[32, 48], depths=[1, 2], num_labels=4),
                  ["convolution"], ["classifier.1"]),
}


def load(path):
    if kind is str:
        return timm.create_model(f"local-dir:{path}", pretrained=True).eval()
    return maker.from_pretrained(path).eval()


def logits_of(model, images):
    with torch.no_grad():
        result = model(images)
    return result if isinstance(result, torch.Tensor) else result.logits


command, folder, case = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
maker, arguments, targets, heads = CASES[case]
kind = type(maker)
if command == "make":
    torch.manual_seed(1)
    if kind is str:
        base = timm.create_model(maker, num_classes=4, **arguments)
        timm.models.save_for_hf(base, folder / "base", model_args=arguments, safe_serialization=True)
    else:
        maker(arguments).save_pretrained(folder / "base")
    model = load(folder / "base")
    ends = [name.rsplit(".", 1)[-1] for name, _ in model.named_modules()]
    targets = [target for target in targets if target.rsplit(".", 1)[-1] in ends]
    config = peft.LoraConfig(r=4, lora_alpha=6, use_rslora=True, lora_dropout=0.1, modules_to_save=heads,
                             target_modules=targets, rank_pattern={"0.*(query|q_proj|qkv)": 2, "1.*fc1": 8},
                             alpha_pattern={"value": 3, "v_proj": 3, "layer1.*conv1": 9})
    adapted = peft.get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn_like(parameter))
    images = torch.randn(3, 3, SIDE, SIDE)
    logits = logits_of(adapted, images)
    adapted.save_pretrained(folder / "theirs")
    safetensors.torch.save_file({"images": images.permute(0, 2, 3, 1).contiguous(), "logits": logits},
                                folder / "theirs.safetensors")
else:
    images = safetensors.torch.load_file(folder / "theirs.safetensors")["images"].permute(0, 3, 1, 2)
    ours = safetensors.torch.load_file(folder / "ours.safetensors")["logits"]
    models = [peft.PeftModel.from_pretrained(load(folder / "base"), folder / "ours").eval()]
    if (folder / "merged").exists():
        models.append(load(folder / "merged"))
    for model in models:
        print(float((logits_of(model, images) - ours).abs().max() / max(1.0, ours.abs().max())))
