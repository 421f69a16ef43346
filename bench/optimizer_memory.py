#!/usr/bin/env python3
"""Gradient space reuse (Dong and Lin 2024), tables 2 to 4: the paper's figures beside planned ones, as Markdown.

    lacuna sweep -c configs/sweeps/optimizer_memory.yaml
    optimizer_memory.py runs/sweeps/optimizer_memory/sweep.json

Without reuse an unfused step has a temporary of the parameters' size beside parameters, gradients and state: the peak is
that, or what forward and backward need, whichever is more. Megabytes are 10^6 bytes.
"""
import json
import sys

# In the order of the sweep's rows: model, and the paper's peak in MB for AdamW, AdamW-R, Adan, Adan-R, Lion, Lion-R.
PAPER = [
    ("ViT-S", 526, 417, 711, 621, 415, 327),
    ("ViT-B", 2007, 1629, 2806, 2407, 1629, 1231),
    ("ViT-L", 6367, 5046, 8812, 7491, 5144, 3827),
    ("ViT-H", 13336, 10777, 18639, 16110, 10687, 8087),
    ("ViT-G", 21542, 17408, 30130, 25910, 17226, 13189),
    ("ConvNeXt-T", 684, 621, 927, 864, 552, 489),
    ("ConvNeXt-S", 1177, 1009, 1634, 1466, 958, 791),
    ("ConvNeXt-B", 1894, 1629, 2632, 2355, 1529, 1281),
    ("ConvNeXt-L", 4387, 3706, 6078, 5417, 3521, 2861),
    ("ConvNeXt-XL", 7218, 6004, 10008, 8823, 5862, 4618),
]
OPTIMIZERS = ["adamw", "adan", "lion"]


def main():
    cases = json.load(open(sys.argv[1]))["cases"]
    rows = {}
    for case in cases:
        if case["status"] != "done":
            raise SystemExit(f"a case is not done: {case['overrides']}")
        settings, memory = case["overrides"], case["result"]["memory"]
        key = settings["optimizer.name"], settings["optimizer.in_backward"] == "true", settings["optimizer.state"]
        rows.setdefault(key, []).append((case["result"]["parameters"], memory))
    for index, optimizer in enumerate(OPTIMIZERS):
        print(f"\n| model, {optimizer} | parameters, million | paper, MB without / with reuse | without, MB | with, MB | "
              "in backward, MB | with int8 state too, MB |\n| --- | --- | --- | --- | --- | --- | --- |")
        for model, (count, memory), (_, apart), (_, coded) in zip(
                PAPER, rows[optimizer, False, "f32"], rows[optimizer, True, "f32"], rows[optimizer, True, "int8"]):
            step = memory["parameters"] + memory["gradients"] + memory["optimizer"] + memory["parameters"]
            without, reuse = max(step, memory["peak"]), memory["peak"]
            paper = model[1 + 2 * index], model[2 + 2 * index]
            print(f"| {model[0]} | {count / 1e6:.1f} | {paper[0]:,} / {paper[1]:,} (-{100 * (1 - paper[1] / paper[0]):.1f} %) "
                  f"| {without / 1e6:,.0f} | {reuse / 1e6:,.0f} (-{100 * (1 - reuse / without):.1f} %) "
                  f"| {apart['peak'] / 1e6:,.0f} (-{100 * (1 - apart['peak'] / without):.1f} %) "
                  f"| {coded['peak'] / 1e6:,.0f} (-{100 * (1 - coded['peak'] / without):.1f} %) |")


if __name__ == "__main__":
    main()
