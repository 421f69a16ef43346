#!/usr/bin/env python3
"""Language models, Lacuna against PyTorch: a training step in f32, and greedy generation.

    language.py [--python PYTHON] [--rounds 3] [--json FILE] [qwen_lora] [gpt2_full] [generate]

qwen_lora is Qwen2-0.5B with 6 layers and LoRA of rank 16 on all linear layers, 1 x 512 tokens; gpt2_full trains GPT-2 small on
2 x 512; generate makes 64 tokens after 64 with the first. PYTHON has torch, transformers and PEFT (bench/peers/language.py). One
process a measurement, by turns, nothing else running; medians over the rounds of each run's median step. Speed is compared with
the better of PyTorch eager and compiled, saved bytes and peak with eager.
"""
import json
import statistics
import sys
import tempfile
import time

import common
from compare import LINE

QWEN = "model={name: qwen2.5-0.5b, num_hidden_layers: 6}"
STEPS = {"qwen_lora": ("qwen", 1, [QWEN, "adapter={name: lora, rank: 16, alpha: 32, targets: [all-linear]}"]),
         "gpt2_full": ("gpt2", 2, ["model={name: gpt2}", "optimizer={name: adamw, lr: 1e-4, weight_decay: 0}"])}
PEER = common.ROOT / "bench/peers/language.py"


def lacuna_step(a, batch, settings):
    result = common.json_of(a.lacuna, "bench", *common.configured("language/plan.yaml", batch, a.threads), "data.length=512",
                            *settings, "--steps", a.steps)
    return {"samples_per_second": batch / result["step_seconds"]["median"], "saved": result["memory"]["saved"],
            "process_peak": result["process_peak"]}


def pytorch_step(a, name, batch, compiled):
    _, median, kept, peak = common.printed_by(LINE, a.python, PEER, "step", name, batch, "--threads", a.threads, "--steps",
                                              a.steps, *(["--compile"] if compiled else []))
    return {"samples_per_second": median, "saved": kept * 2**20, "process_peak": peak * 2**20}


def median_of(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def compare_step(a, case):
    name, batch, settings = STEPS[case]
    ours, eager, compiled = [], [], []
    for _ in range(a.rounds):
        ours.append(lacuna_step(a, batch, settings))
        eager.append(pytorch_step(a, name, batch, False))
        compiled.append(pytorch_step(a, name, batch, True))
    ours, eager, compiled = median_of(ours), median_of(eager), median_of(compiled)
    best = max(eager["samples_per_second"], compiled["samples_per_second"])
    print(f"{case}: seconds a step, PyTorch eager {batch / eager['samples_per_second']:.2f}, compiled "
          f"{batch / compiled['samples_per_second']:.2f}, Lacuna {batch / ours['samples_per_second']:.2f}: "
          f"{ours['samples_per_second'] / best:.2f} x; saved MiB {eager['saved'] / 2**20:.0f} / {ours['saved'] / 2**20:.0f}; "
          f"peak MiB {eager['process_peak'] / 2**20:.0f} / {ours['process_peak'] / 2**20:.0f}", flush=True)
    return {"lacuna": ours, "eager": eager, "compiled": compiled}


def lacuna_generate(a, folder):
    """Tokens a second without the start and the prompt, and the ids."""
    def seconds(tokens):
        shortest = float("inf")
        for _ in range(2):
            begin = time.perf_counter()
            made = common.json_of(a.lacuna, "generate", folder, "1" * 64, "--greedy", "--max-new-tokens", tokens)
            shortest = min(shortest, time.perf_counter() - begin)
        return shortest, made[0]["ids"]

    first, _ = seconds(1)
    all_of_them, ids = seconds(1 + a.tokens)
    return a.tokens / (all_of_them - first), ids


def compare_generation(a):
    with tempfile.TemporaryDirectory() as folder:
        common.run(a.python, PEER, "write", "qwen", folder)
        ours, theirs = [], []
        for _ in range(a.rounds):
            speed, ids = lacuna_generate(a, folder)
            ours.append(speed)
            printed = common.run(a.python, PEER, "generate", folder, "--tokens", a.tokens, "--threads", a.threads).splitlines()
            theirs.append(float(printed[-1].split()[0]))
            if json.loads(printed[-2].removeprefix("ids ")) != ids:
                raise SystemExit(f"Lacuna made {ids}, transformers\n{printed[-2]}")
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(f"generate: tokens/s, PyTorch {theirs:.2f}, Lacuna {ours:.2f}: {ours / theirs:.2f} x, the same tokens", flush=True)
    return {"lacuna": ours, "eager": theirs}


def main():
    parser = common.parser(__doc__)
    parser.add_argument("cases", nargs="*", help="all by default")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--lacuna", default=common.ROOT / "build/release/bin/lacuna")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    a = parser.parse_args()
    unknown = set(a.cases) - {*STEPS, "generate"}
    if unknown:
        parser.error(f"expected {', '.join(STEPS)} or generate, got {', '.join(sorted(unknown))}")
    results = {}
    for case in a.cases or [*STEPS, "generate"]:
        results[case] = compare_generation(a) if case == "generate" else compare_step(a, case)
    if a.json:
        common.write_json(a.json, results)


if __name__ == "__main__":
    main()
