#!/usr/bin/env python3
"""What PyTorch keeps between forward and backward of a timm model with PEFT's LoRA on all linear layers.

    lora_bytes.py deit_small_patch16_224 8 --dropout 0.1

Prints `saved MIB a_sample MIB`. Storages are counted once; parameters and buffers are left out. Nothing is computed:
tensors have a shape and a type only.
"""
import argparse

import peft
import timm
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("batch", type=int)
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--rank", type=int, default=8)
parser.add_argument("--dropout", type=float, default=0.1)
a = parser.parse_args()

model = timm.create_model(a.model)
head = timm.create_model(a.model).default_cfg["classifier"]
targets = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear) and name != head]
model = peft.get_peft_model(model, peft.LoraConfig(r=a.rank, lora_alpha=a.rank, lora_dropout=a.dropout,
                                                   target_modules=targets, modules_to_save=[head])).train()
mode = FakeTensorMode(allow_non_fake_inputs=True)
state = {name: mode.from_tensor(tensor) for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
own = {tensor.untyped_storage()._cdata for tensor in state.values()}
saved = {}


def pack(tensor):
    storage = tensor.untyped_storage()
    if storage._cdata not in own:
        saved[storage._cdata] = (storage.nbytes(), tensor)  # which lives on, so that its number is not given again
    return tensor


with mode, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
    logits = torch.func.functional_call(model, state, (torch.randn(a.batch, 3, a.size, a.size),))
    torch.nn.functional.cross_entropy(logits, torch.randint(0, 1000, (a.batch,)))

mib = sum(count for count, _ in saved.values()) / 2**20
print(f"saved {mib:.2f} a_sample {mib / a.batch:.2f}")
