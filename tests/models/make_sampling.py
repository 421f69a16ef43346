#!/usr/bin/env python3
"""Writes tests/models/sampling.json: probabilities of tokens after the logits processors of transformers (5.24).

    make_sampling.py > tests/models/sampling.json
"""
import json

import torch
from transformers.generation import logits_process as lp

PROCESSORS = {
    "repetition_penalty": lp.RepetitionPenaltyLogitsProcessor,
    "no_repeat_ngram_size": lp.NoRepeatNGramLogitsProcessor,
    "temperature": lp.TemperatureLogitsWarper,
    "top_k": lp.TopKLogitsWarper,
    "top_p": lp.TopPLogitsWarper,
    "min_p": lp.MinPLogitsWarper,
}
CASES = [
    {"temperature": 0.6},
    {"temperature": 2.0},
    {"top_k": 1},
    {"top_k": 4},
    {"top_p": 0.2},
    {"top_p": 0.85},
    {"top_p": 0.99},
    {"min_p": 0.02},
    {"min_p": 0.4},
    {"repetition_penalty": 1.5},
    {"repetition_penalty": 0.7},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"repetition_penalty": 1.2, "temperature": 0.9, "top_k": 9, "top_p": 0.9},
    {"no_repeat_ngram_size": 2, "temperature": 1.7, "top_k": 12, "top_p": 0.97, "min_p": 0.05},
]

logits = torch.tensor([[round(3.0 * torch.sin(torch.tensor(i * i * 0.37 + 0.5)).item(), 4) for i in range(17)]])
before = torch.tensor([[4, 9, 2, 9, 2, 11, 4, 9]])
cases = []
for settings in CASES:
    scores = logits.clone()
    for name, value in settings.items():
        scores = PROCESSORS[name](value)(before, scores)
    cases.append({"settings": settings, "probabilities": [float(f"{p:.7g}") for p in scores.softmax(-1)[0].tolist()]})
ties = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0, 2.0]])
kept = {k: torch.isfinite(PROCESSORS[k](v)(before, ties.clone()))[0].nonzero()[:, 0].tolist() for k, v in
        (("top_k", 2), ("top_p", 0.4))}
print(json.dumps({"logits": [float(f"{x:.5g}") for x in logits[0].tolist()], "before": before[0].tolist(), "cases": cases,
                  "ties": {"logits": ties[0].tolist(), "top_k of 2": kept["top_k"], "top_p of 0.4": kept["top_p"]}}))
