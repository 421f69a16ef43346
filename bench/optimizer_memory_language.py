#!/usr/bin/env python3
"""Gradient space reuse (Dong and Lin 2024), tables 2 to 4, language models: the paper's figures beside planned ones.

    lacuna sweep -c configs/sweeps/optimizer_memory_language.yaml
    optimizer_memory_language.py runs/sweeps/optimizer_memory_language/sweep.json

`Z`: the paper divides state and gradients over 8 GPUs by ZeRO-3 and states one GPU's peak; the plan is one process, so
that these rows cannot be compared. Megabytes are 10^6 bytes. Without reuse as in optimizer_memory.py.
"""
import json
import sys

# Label, model, whether ZeRO-3, and the paper's peaks in MB, without and with reuse, for AdamW, Adan and Lion.
PAPER = [
    ("BLOOM-560M", "bloom-560m", False, (15531, 13822), (20005, 18296), (13294, 11996)),
    ("BLOOM-560M", "bloom-560m", True, (5339, 5011), (5859, 5544), (4513, 4508)),
    ("BLOOM-3B", "bloom-3b", True, (23477, 21964), (26472, 24965), (21957, 20462)),
    ("BLOOM-7B", "bloom-7b1", True, (44826, 41296), (48355, 48184), (41306, 37761)),
    ("Phi-1.5", "phi-1.5", False, (36650, 36008), None, None),
    ("Phi-1.5", "phi-1.5", True, (18616, 17949), (20098, 19370), (17950, 17273)),
    ("Phi-2", "phi-2", True, (27581, 26132), (30301, 28907), (26159, 24809)),
    ("Qwen-0.5B", "qwen1.5-0.5b", False, (12581, 11272), (16437, 15129), (10614, 9666)),
    ("Qwen-0.5B", "qwen1.5-0.5b", True, (4897, 4837), (5509, 5491), (4897, 4855)),
    ("Qwen-1.8B", "qwen1.5-1.8b", False, (46410, 38986), None, (38986, 31562)),
    ("Qwen-1.8B", "qwen1.5-1.8b", True, (12756, 11902), (14691, 13673), (11913, 10945)),
    ("LLaMA-2-7B", "llama-2-7b", True, (32325, 29002), (39115, 35713), (29007, 25618)),
    ("LLaMA-2-13B", "llama-2-13b", True, (49103, 45768), None, (47297, 39249)),
    ("Gemma-2B", "gemma-2b", True, (19609, 18365), (22118, 20870), (18347, 17123)),
    ("Gemma-7B", "gemma-7b", True, (47029, 42841), (49424, 48484), (48279, 39416)),
    ("Vicuna-7B", "vicuna-7b", True, (32351, 28993), (32351, 28993), (28978, 25596)),
    ("Vicuna-13B", "vicuna-13b", True, (49327, 46089), None, (47596, 39514)),
    ("ChatGLM3-6B", "chatglm3-6b", True, (31491, 28369), (37670, 34614), (28302, 25180)),
    ("Falcon-7B", "falcon-7b", True, (33643, 30168), (40548, 37099), (30187, 26719)),
]


def main():
    planned = {}
    for case in json.load(open(sys.argv[1]))["cases"]:
        if case["status"] != "done":
            raise SystemExit(f"a case is not done: {case['overrides']}")
        settings, memory = case["overrides"], case["result"]["memory"]
        in_backward = settings["optimizer.in_backward"] in (True, "true")
        key = settings["model.name"], settings["optimizer.name"], in_backward, settings["optimizer.state"]
        planned[key] = case["result"]["parameters"], memory
    print("| optimizer | model | parameters, million | paper, MB without / with reuse | without, MB | with, MB | "
          "in backward, MB | with int8 state too, MB |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for index, optimizer in enumerate(["adamw", "adan", "lion"]):
        for label, model, divided, *paper in PAPER:
            if paper[index] is None:
                continue
            count, memory = planned[model, optimizer, False, "f32"]
            apart, coded = (planned[model, optimizer, True, state][1]["peak"] for state in ("f32", "int8"))
            step = 2 * memory["parameters"] + memory["gradients"] + memory["optimizer"]
            without, reuse = max(step, memory["peak"]), memory["peak"]
            before, after = paper[index]
            saved = lambda peak: f"{peak / 1e6:,.0f} (-{100 * (1 - peak / without):.1f} %)"
            print(f"| {optimizer} | {label}{' Z' if divided else ''} | {count / 1e6:.1f} "
                  f"| {before:,} / {after:,} (-{100 * (1 - after / before):.1f} %) "
                  f"| {without / 1e6:,.0f} | {saved(reuse)} | {saved(apart)} | {saved(coded)} |")


if __name__ == "__main__":
    main()
