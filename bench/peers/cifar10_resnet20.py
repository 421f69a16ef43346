#!/usr/bin/env python3
"""The recipe of configs/cifar10_resnet20.yaml in PyTorch: the same network, data, augmentation and schedule.

Prints one JSON line an epoch: epoch, loss, accuracy on the test images (0 to 1), seconds of training (loading and
augmentation included, evaluation not). The pictures lie in memory as one tensor and a batch is augmented by a few
tensor operations, which is faster than torchvision's transforms, picture by picture, in a DataLoader.

  python bench/peers/cifar10_resnet20.py --data DIR [--epochs 8] [--seed 1] [--threads 2] [--channels-last] [--compile]
"""
import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
STD = torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + shortcut)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        blocks, inputs = [], 16
        for width, stride in ((16, 1), (32, 2), (64, 2)):
            for index in range(3):
                blocks.append(Block(inputs, width, stride if index == 0 else 1))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(64, 10)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


def read(folder, names):
    """Pictures [N, 3, 32, 32] as bytes and labels [N], from CIFAR's binary layout."""
    records = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in names])
    return torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(records[:, 0].astype(np.int64))


def augment(pictures):
    """Random crop of 32 x 32 after padding by 4, and a flip of every second picture. pictures: [B, 3, 32, 32]."""
    count = len(pictures)
    padded = F.pad(pictures, (4, 4, 4, 4))
    rows = torch.randint(0, 9, (count, 1)) + torch.arange(32)
    columns = torch.randint(0, 9, (count, 1)) + torch.arange(32)
    columns = torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns)
    index = torch.arange(count).view(-1, 1, 1)
    cropped = padded.permute(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, help="end an epoch after so many steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)

    train_x, train_y = read(options.data, [f"data_batch_{i}.bin" for i in range(1, 6)])
    test_x, test_y = read(options.data, ["test_batch.bin"])
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    model = ResNet20().to(memory_format=layout)
    forward = torch.compile(model) if options.compile else model
    batch, steps = 128, len(train_x) // 128
    total, warmup = options.epochs * steps, steps
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (step + 1) / warmup if step < warmup
        else 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup))))

    def normalise(pictures):
        return ((pictures.float() / 255 - MEAN) / STD).contiguous(memory_format=layout)

    for epoch in range(1, options.epochs + 1):
        model.train()
        order, loss_sum, taken = torch.randperm(len(train_x)), 0.0, 0
        started = time.perf_counter()
        for step in range(min(steps, options.steps or steps)):
            chosen = order[step * batch:(step + 1) * batch]
            loss = F.cross_entropy(forward(normalise(augment(train_x[chosen]))), train_y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            loss_sum += loss.item()
            taken += 1
        seconds = time.perf_counter() - started
        model.eval()
        with torch.no_grad():
            hits = sum((model(normalise(x)).argmax(1) == y).sum().item()
                       for x, y in zip(test_x.split(500), test_y.split(500)))
        print(json.dumps({"epoch": epoch, "loss": loss_sum / taken, "val_accuracy": hits / len(test_x),
                          "seconds": seconds, "samples_per_second": taken * batch / seconds}), flush=True)


if __name__ == "__main__":
    main()
