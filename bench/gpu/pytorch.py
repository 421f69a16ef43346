#!/usr/bin/env python3
"""A training step of PyTorch on a GPU: bf16 autocast, made-up images, fused AdamW or SGD.

    pytorch.py deit_base|deit_tiny|resnet50 BATCH [--compile] [--steps 20]

Prints a line of JSON: samples a second of the median step, by events, and the peak that its allocator handed out. The models
are those of timm and torchvision, written out: neither need be there. Convolutional ones are channels-last.
"""
import argparse
import json
import statistics

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=1e-6), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 197, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, channels, inner, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner)
        self.shortcut = None
        if stride != 1 or channels != 4 * inner:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = functional.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return functional.relu(y + (x if self.shortcut is None else self.shortcut(x)), inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if block == 0 and stage > 0 else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


MODELS = {
    "deit_base": lambda: VisionTransformer(768, 12),
    "deit_tiny": lambda: VisionTransformer(192, 3),
    "resnet50": resnet50,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("batch", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    a = parser.parse_args()
    torch.manual_seed(1)
    model = MODELS[a.model]().cuda()
    images = torch.randn(a.batch, 3, 224, 224, device="cuda")
    if a.model == "resnet50":
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    labels = torch.randint(1000, (a.batch,), device="cuda")
    forward = torch.compile(model) if a.compile else model

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = functional.cross_entropy(forward(images), labels)
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
