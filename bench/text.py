#!/usr/bin/env python3
"""Sequences of real lengths: Lacuna without padding against PyTorch with each batch padded to its longest.

    text.py --lengths FILE [--python PYTHON] [--model minilm] [--batch 32] [--batches 8] [--rounds 3] [--json FILE]

FILE has the tokens of each sequence of a data set, a number a line. Both sides get the same batches, drawn from it. PYTHON has torch
and transformers (bench/peers/bert.py). One process a measurement, by turns, nothing else running; medians over the rounds of each
run's median step.
"""
import pathlib
import random
import statistics
import sys

import common
from compare import LINE

CONFIGURATIONS = {"minilm": "minilm_sst2.yaml", "bert_base": "bert_base.yaml"}


def lacuna(a, batches):
    """Seconds of all batches, one training step each."""
    seconds = 0
    for lengths in batches:
        result = common.json_of(a.lacuna, "bench", *common.configured(CONFIGURATIONS[a.model], a.batch, a.threads),
                                f"data.length=[{', '.join(map(str, lengths))}]", f"memory.policy={a.policy}",
                                "--steps", a.steps)
        seconds += result["step_seconds"]["median"]
    return seconds


def pytorch(a, batches, compiled):
    flat = ",".join(str(n) for lengths in batches for n in lengths)
    _, median, _, _ = common.printed_by(LINE, a.python, common.ROOT / "bench/peers/bert.py", a.model, a.batch, "--lengths",
                                        flat, "--threads", a.threads, "--steps", a.steps,
                                        *(["--compile"] if compiled else []))
    return median


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--lengths", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--lacuna", default=common.ROOT / "build/release/bin/lacuna")
    parser.add_argument("--model", choices=CONFIGURATIONS, default="minilm")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--policy", default="exact")
    parser.add_argument("--compile", action="store_true", help="compile PyTorch's model, which varying shapes slow down")
    parser.add_argument("--json")
    a = parser.parse_args()
    known = [int(line) for line in pathlib.Path(a.lengths).read_text().split()]
    drawn = random.Random(1)
    batches = [[drawn.choice(known) for _ in range(a.batch)] for _ in range(a.batches)]
    tokens = sum(map(sum, batches))
    padded = sum(max(lengths) * len(lengths) for lengths in batches)
    samples = a.batch * a.batches
    ours, theirs = [], []
    for _ in range(a.rounds):
        ours.append(samples / lacuna(a, batches))
        theirs.append(pytorch(a, batches, a.compile))
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(f"{samples} sequences, {tokens} tokens, {padded / tokens:.2f} x as many with padding\n"
          f"Lacuna {ours:.1f} sequences/s, PyTorch {theirs:.1f}: {ours / theirs:.2f} x")
    if a.json:
        common.write_json(a.json, {"tokens": tokens, "padded": padded, "lacuna": ours, "pytorch": theirs})


if __name__ == "__main__":
    main()
