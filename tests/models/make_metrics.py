#!/usr/bin/env python3
"""Prints the constants of tests/models/metrics.cpp: sklearn's and scipy's values of numbers that a formula gives."""
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef


def drawn(seed, count, below):
    values = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        values.append(seed // 65536 % below)
    return values


for classes in (2, 4):
    labels = drawn(1, 300, classes)
    predicted = [label if keep else other for label, keep, other in zip(labels, drawn(2, 300, 2), drawn(3, 300, classes))]
    print(classes, "accuracy", repr(accuracy_score(labels, predicted)))
    print(classes, "macro_f1", repr(f1_score(labels, predicted, average="macro")))
    print(classes, "matthews", repr(matthews_corrcoef(labels, predicted)))
    if classes == 2:
        print(classes, "f1", repr(f1_score(labels, predicted)))
scores = [value / 4 for value in drawn(4, 300, 21)]  # with ties
guesses = [score + (noise - 50) / 32 for score, noise in zip(scores, drawn(5, 300, 101))]
print("pearson", repr(float(pearsonr(guesses, scores)[0])))
print("spearman", repr(float(spearmanr(guesses, scores)[0])))
