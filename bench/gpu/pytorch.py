#!/usr/bin/env python3
"""A training step of PyTorch on a GPU: bf16 autocast, made-up images or 128 tokens, fused AdamW or SGD.

    pytorch.py MODEL BATCH [--compile] [--steps 20]

Prints a line of JSON: samples a second of the median step, by events, and the peak that its allocator handed out. Convolutional
models are channels-last.
"""
import argparse
import json
import statistics

import torch
from torch.nn import functional

from pytorch_models import MODELS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("batch", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    a = parser.parse_args()
    torch.manual_seed(1)
    model = MODELS[a.model]().cuda()
    if a.model == "bert_base":
        inputs = torch.randint(30522, (a.batch, 128), device="cuda")
    else:
        inputs = torch.randn(a.batch, 3, 224, 224, device="cuda")
    if a.model in ("resnet50", "convnext_tiny"):
        model, inputs = model.to(memory_format=torch.channels_last), inputs.to(memory_format=torch.channels_last)
    if a.model == "resnet50":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    labels = torch.randint(2 if a.model == "bert_base" else 1000, (a.batch,), device="cuda")
    forward = torch.compile(model) if a.compile else model

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = functional.cross_entropy(forward(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(5):
        step()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(a.steps + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    seconds = [1e-3 * before.elapsed_time(after) for before, after in zip(events, events[1:])]
    print(json.dumps({"samples_per_second": a.batch / statistics.median(seconds), "torch": torch.__version__,
                      "allocated_peak": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()
