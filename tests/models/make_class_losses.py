#!/usr/bin/env python3
"""Prints the constants of tests/models/class_targets.cpp: losses of torch and timm with their gradients."""
import torch
import torch.nn.functional as F
from timm.loss import BinaryCrossEntropy

torch.set_default_dtype(torch.float64)
logits = torch.tensor([[(i * j * 5 % 7) / 2 - 1.5 for j in range(1, 5)] for i in range(1, 4)], requires_grad=True)
labels = torch.tensor([3, 0, 2])
soft = torch.tensor([[0.3, 0, 0, 0.7], [0.5, 0.5, 0, 0], [0, 0, 1, 0]])
weights = torch.tensor([1.0, 2.0, 0.5, 4.0])


def show(name, loss):
    logits.grad = None
    loss.backward()
    print(name, repr(loss.item()), [round(v, 9) for v in logits.grad.reshape(-1).tolist()])


show("weights, labels", F.cross_entropy(logits, labels, weight=weights))
show("weights, labels, smoothing", F.cross_entropy(logits, labels, weight=weights, label_smoothing=0.2))
show("weights, probabilities, smoothing", F.cross_entropy(logits, soft, weight=weights, label_smoothing=0.2))
show("bce", BinaryCrossEntropy(smoothing=0.1)(logits, labels))
show("bce, threshold", BinaryCrossEntropy(smoothing=0.1, target_threshold=0.2)(logits, labels))
show("bce, weights", F.binary_cross_entropy_with_logits(logits, F.one_hot(labels, 4) * 0.9 + 0.025, pos_weight=weights))
# timm smooths probabilities where it mixes them
show("bce, threshold, sum", BinaryCrossEntropy(target_threshold=0.2, sum_classes=True)(logits, soft * 0.9 + 0.025))
