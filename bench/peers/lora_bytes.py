#!/usr/bin/env python3
"""What PyTorch keeps between forward and backward of a model with PEFT's LoRA.

    lora_bytes.py deit_small_patch16_224 8 --dropout 0.1      # of timm, on all linear layers but the head
    lora_bytes.py bert_base 32 --targets query,value          # of transformers, 128 tokens, two classes

Prints `saved MIB a_sample MIB`. Storages are counted once; parameters and buffers are left out. Nothing is computed:
tensors have a shape and a type only.
"""
import argparse

import peft
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("batch", type=int)
parser.add_argument("--size", type=int, default=224, help="side of an image in pixels")
parser.add_argument("--length", type=int, default=128, help="tokens of a text")
parser.add_argument("--rank", type=int, default=8)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--targets", help="names of layers with commas between them; by default all linear ones")
a = parser.parse_args()

BERT = {"bert_base": (768, 12, 12), "bert_large": (1024, 24, 16)}
if a.model in BERT:
    from transformers import BertConfig, BertForSequenceClassification

    width, layers, heads = BERT[a.model]
    model, head = BertForSequenceClassification(BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width)), "classifier"
    make_inputs = lambda: (torch.randint(0, 30522, (a.batch, a.length)),)
else:
    import timm

    model = timm.create_model(a.model)
    head = model.default_cfg["classifier"]
    make_inputs = lambda: (torch.randn(a.batch, 3, a.size, a.size),)
targets = a.targets.split(",") if a.targets else [
    name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear) and name != head]
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
    outputs = torch.func.functional_call(model, state, make_inputs())
    logits = outputs if isinstance(outputs, torch.Tensor) else outputs.logits
    torch.nn.functional.cross_entropy(logits, torch.randint(0, logits.shape[1], (a.batch,)))

mib = sum(count for count, _ in saved.values()) / 2**20
print(f"saved {mib:.2f} a_sample {mib / a.batch:.2f}")
