#!/usr/bin/env python3
"""One training step, Lacuna against PyTorch: speed, bytes saved for backward, peak of the process.

    compare.py --peer PEER.py [--python PYTHON] [--lacuna BINARY] [--precision bf16] [--rounds 3] [--json FILE]
               [CASE ...]

PEER.py, run by PYTHON (which has torch, torchvision and timm), is PyTorch's side. `PEER.py MODEL BATCH [--compile] [--bf16]
--threads N --steps N` trains MODEL (timm's name, resnet18_cifar or vit_cifar, which are the models of
configs/cifar10_*.yaml) on made-up images: forward, cross-entropy, backward and fused AdamW, in f32 or under autocast to
bf16, convolutional models channels-last, with --compile under torch.compile. It prints one line with `X samples/s best, Y
median; kept K MiB; peak RSS P MiB` in it: X and Y by the fastest and the median step (bench/peers/bert.py is one, for
bert_base at 128 tokens, bench/peers/dense.py another, for torchvision's mobile networks, segmentation and detection), K the storages that autograd holds between forward and backward, each once, parameters and
buffers left out, P the process's highest resident size. All programs run alternately, one process a measurement, nothing
else running; medians over the rounds of each run's median step. Lacuna's speed is compared with the better of PyTorch
eager and compiled, saved bytes and peak with eager; with --precision bf16 also with its own in f32.
"""
import platform
import statistics
import sys

import common

# by precision and name: (least speed, most saved, most peak), as parts of PyTorch's
GOALS = {"f32": {
    "deit_tiny": (1.2, 0.63, 0.7),
    "deit_small": (1.15, 0.63, 0.7),
    "vit_cifar": (1.2, 0.63, 0.7),
    "resnet18_cifar": (1.2, 0.74, 0.8),
    "resnet50": (1.25, 0.80, 0.8),
    "swin_tiny": (1.5, 0.55, 0.7),
    "convnext_tiny": (1.3, 0.6, 0.7),
    "vgg11_bn": (1.2, 0.5, 0.7),
    "bert_base": (1.3, 0.45, 0.7),
    "mobilenetv3_large": (1.2, 0.45, 0.7),
    "efficientnetv2_s": (1.2, 0.35, 0.7),
    "fcn_resnet50": (1.2, 0.58, 0.7),
    "retinanet_resnet50_fpn": (1.2, 0.63, 0.7),
}, "bf16": {
    "deit_tiny": (1.7, 0.6, 0.7),
    "deit_small": (1.7, 0.6, 0.7),
    "vit_cifar": (1.7, 0.6, 0.7),
    "resnet18_cifar": (1.3, 0.6, 0.7),
    "resnet50": (1.3, 0.6, 0.7),
    "swin_tiny": (1.25, 0.6, 0.7),
    "bert_base": (1.4, 0.6, 0.7),
}}
LINE = r"([\d.]+) samples/s best, ([\d.]+) median; kept ([\d.]+) MiB; peak RSS ([\d.]+) MiB"


def pytorch(a, model, compiled):
    best, median, kept, peak = common.printed_by(LINE, a.python, a.peer, model.peer, model.batch, "--threads", a.threads,
                                                 "--steps", a.steps, *(["--compile"] if compiled else []),
                                                 *(["--bf16"] if a.precision == "bf16" else []))
    return {"samples_per_second": median, "best": best, "saved": kept * 2**20, "process_peak": peak * 2**20}


def lacuna(a, model, precision):
    preset = [f"model={{name: {model.preset}}}"] if model.preset else []
    result = common.json_of(a.lacuna, "bench", *common.configured(model.configuration, model.batch, a.threads), *preset,
                            *model.overrides, f"train.precision={precision}", "optimizer={name: adamw, lr: 1e-4}",
                            f"memory.policy={a.policy}", "--steps", a.steps)
    return {"samples_per_second": model.batch / result["step_seconds"]["median"],
            "best": model.batch / result["step_seconds"]["min"],
            "saved": result["memory"]["saved"], "ledger_peak": result["memory"]["peak"],
            "process_peak": result["process_peak"]}


def middle(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    isa = next((name for name in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if f" {name}" in flags), "baseline")
    return {"cpu": cpu, "instruction_set": isa, "system": platform.platform()}


def main():
    parser = common.parser(__doc__)
    parser.add_argument("case", nargs="*", help=f"of {', '.join(GOALS['f32'])}; by default all that have goals")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--lacuna", default=common.ROOT / "build/release/bin/lacuna")
    parser.add_argument("--precision", choices=GOALS, default="f32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--policy", default="exact")
    parser.add_argument("--json")
    a = parser.parse_args()
    results = {}
    print(f"{'case':<15} {'eager/s':>8} {'compiled/s':>10} {'Lacuna/s':>9} {'speed':>6} {'goal':>5} {'of f32':>6}  "
          f"{'saved MiB':>15} {'ratio':>6} {'goal':>5}  {'peak MiB':>13} {'ratio':>6} {'goal':>5}")
    goals = GOALS[a.precision]
    for name in a.case or goals:
        model, (speed, saved, peak) = common.MODELS[name], goals[name]
        runs = {"eager": [], "compiled": [], "lacuna": [], "lacuna_f32": []}
        for _ in range(a.rounds):
            runs["eager"].append(pytorch(a, model, False))
            runs["lacuna"].append(lacuna(a, model, a.precision))
            runs["lacuna_f32"].append(runs["lacuna"][-1] if a.precision == "f32" else lacuna(a, model, "f32"))
            runs["compiled"].append(pytorch(a, model, True))
        eager, compiled, ours, in_f32 = (middle(runs[key]) for key in runs)
        ratios = {
            "speed": ours["samples_per_second"] / max(eager["samples_per_second"], compiled["samples_per_second"]),
            "speed_of_f32": ours["samples_per_second"] / in_f32["samples_per_second"],
            "saved": ours["saved"] / eager["saved"],
            "peak": ours["process_peak"] / eager["process_peak"],
        }
        results[name] = {"batch_size": model.batch, "eager": eager, "compiled": compiled, "lacuna": ours,
                         "lacuna_f32": in_f32, "ratios": ratios,
                         "goals": {"speed": speed, "saved": saved, "peak": peak}, "runs": runs}
        print(f"{name:<15} {eager['samples_per_second']:8.2f} {compiled['samples_per_second']:10.2f} "
              f"{ours['samples_per_second']:9.2f} {ratios['speed']:6.3f} {speed:5.2f} {ratios['speed_of_f32']:6.2f}  "
              f"{ours['saved'] / 2**20:7.1f}/{eager['saved'] / 2**20:7.1f} {ratios['saved']:6.3f} {saved:5.2f}  "
              f"{ours['process_peak'] / 2**20:6.0f}/{eager['process_peak'] / 2**20:6.0f} {ratios['peak']:6.3f} {peak:5.2f}",
              flush=True)
    if a.json:
        common.write_json(a.json, {"machine": machine(), "threads": a.threads, "precision": a.precision, "rounds": a.rounds,
                                   "cases": results})


if __name__ == "__main__":
    main()
