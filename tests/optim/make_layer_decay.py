#!/usr/bin/env python3
"""Writes layer_decay.txt: the rate of each parameter under timm's layer-wise decay.

    python3 make_layer_decay.py > layer_decay.txt        (needs timm)

A line `model NAME decay`, then a line `parameter scale weight_decay` for each, weight decay being 0.05 where it is not
excluded.
"""
import timm
from timm.optim import param_groups_layer_decay

DECAY = 0.75

for name, arguments in (("vit_tiny_patch16_224", {"depth": 3}), ("resnet18", {}), ("swin_tiny_patch4_window7_224", {}),
                        ("convnext_tiny", {}), ("vgg11_bn", {"num_classes": 10}), ("mobilenetv3_small_100", {}),
                        ("efficientnet_b0", {})):
    model = timm.create_model(name, **arguments)
    excluded = model.no_weight_decay() if hasattr(model, "no_weight_decay") else set()
    groups = param_groups_layer_decay(model, 0.05, excluded, layer_decay=DECAY)
    found = {id(p): (g["lr_scale"], g["weight_decay"]) for g in groups for p in g["params"]}
    print("model", name, DECAY)
    for path, parameter in model.named_parameters():
        scale, decay = found[id(parameter)]
        print(path, "x".join(map(str, parameter.shape)), scale, decay)
