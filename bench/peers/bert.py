#!/usr/bin/env python3
"""PyTorch's side of bench/compare.py and bench/text.py: one training step of transformers' BERT after another.

    bert.py MODEL BATCH [--compile] [--bf16] [--length 128 | --lengths N,N,...] --threads N --steps N

MODEL is bert_base, bert_large or minilm. Forward, cross entropy, backward and fused AdamW in f32, or with --bf16 under
autocast. With --lengths batches take that many tokens in turn, each batch padded to its longest, and a step goes through
all of them once. Prints one line with `X samples/s best, Y median; kept K MiB; peak RSS P MiB` in it: X and Y by the
fastest and the median step, K what autograd holds of the first batch between forward and backward, each storage once,
parameters and buffers left out.
"""
import argparse
import time

import torch
from transformers import BertConfig, BertForSequenceClassification

from steps import kept_bytes, print_line

MODELS = {"bert_base": (768, 12, 12), "bert_large": (1024, 24, 16), "minilm": (384, 6, 12)}


def batches(a):
    lengths = [int(n) for n in a.lengths.split(",")] if a.lengths else [a.length] * a.batch
    generator = torch.Generator().manual_seed(1)
    for begin in range(0, len(lengths), a.batch):
        own = torch.tensor(lengths[begin:begin + a.batch])
        mask = (torch.arange(int(own.max()))[None] < own[:, None]).long()
        ids = torch.randint(1000, 30000, mask.shape, generator=generator) * mask
        inputs = {"input_ids": ids, "token_type_ids": torch.zeros_like(ids)}
        if int(own.min()) < int(own.max()):
            inputs["attention_mask"] = mask
        yield inputs, torch.randint(0, 2, (len(own),), generator=generator)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("batch", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--lengths")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    width, layers, heads = MODELS[a.model]
    net = BertForSequenceClassification(BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
                                                   intermediate_size=4 * width, num_labels=2)).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-5, weight_decay=0.0, fused=True)
    run = torch.compile(net) if a.compile else net
    data = list(batches(a))

    def loss_of(inputs, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            return run(**inputs, labels=labels).loss

    kept = kept_bytes([*net.parameters(), *net.buffers()], lambda: loss_of(*data[0]))
    seconds = []
    for step in range(a.steps + 2):
        begin = time.perf_counter()
        for inputs, labels in data:
            optimizer.zero_grad(set_to_none=True)
            loss_of(inputs, labels).backward()
            optimizer.step()
        if step >= 2:
            seconds.append(time.perf_counter() - begin)
    print_line(sum(len(labels) for _, labels in data), seconds, kept)


if __name__ == "__main__":
    main()
