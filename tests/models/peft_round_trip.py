#!/usr/bin/env python3
"""The library PEFT's side of tests/models/adapters.cpp.

    peft_round_trip.py make FOLDER     a timm model, an adapter of PEFT, images and logits
    peft_round_trip.py check FOLDER    the largest difference of PEFT's logits from FOLDER/ours.safetensors
"""
import pathlib
import sys

import peft
import safetensors.torch
import timm
import torch


def base_model():
    torch.manual_seed(1)
    return timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=4).eval()


command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if command == "make":
    model = base_model()
    safetensors.torch.save_file(model.state_dict(), folder / "base.safetensors")
    config = peft.LoraConfig(r=4, lora_alpha=6, use_rslora=True, lora_dropout=0.1, modules_to_save=["head"],
                             target_modules=["attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"])
    adapted = peft.get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn_like(parameter))
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        logits = adapted(images)
    adapted.save_pretrained(folder / "theirs")
    safetensors.torch.save_file({"images": images.permute(0, 2, 3, 1).contiguous(), "logits": logits},
                                folder / "theirs.safetensors")
else:
    images = safetensors.torch.load_file(folder / "theirs.safetensors")["images"].permute(0, 3, 1, 2)
    ours = safetensors.torch.load_file(folder / "ours.safetensors")["logits"]
    adapted = peft.PeftModel.from_pretrained(base_model(), folder / "ours").eval()
    merged = base_model()
    merged.load_state_dict(safetensors.torch.load_file(folder / "merged.safetensors"))
    with torch.no_grad():
        for model in (adapted, merged):
            print(float((model(images) - ours).abs().max()))
