#!/usr/bin/env python3
"""Lacuna's AdamW and PyTorch's fused one by turns, on the same arrays: 86 million parameters in 21 matrices.

    optimizer_pair.py LIBRARY [--threads 2] [--steps 20]

LIBRARY is libbench_adamw.so, whose arrays (in huge pages, where the machine gives them) PyTorch steps on too. Prints one
JSON line: the seconds of each step, "lacuna" and "pytorch". How fast memory is differs from process to process by more
than the two differ from each other; here both have the same. Each goes first in every second pair.
"""
import argparse
import ctypes
import json
import os
import time

os.environ["OMP_WAIT_POLICY"] = "passive"  # there are two pools of threads: none is to spin while the other works

import torch

COUNT, ROWS, COLUMNS = 21, 2000, 2048

parser = argparse.ArgumentParser()
parser.add_argument("library")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=20)
a = parser.parse_args()

torch.set_num_threads(a.threads)
library = ctypes.CDLL(a.library)
library.adamw_create.restype = ctypes.c_void_p
library.adamw_create.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int]
for name in ("values", "gradient", "state"):
    function = getattr(library, f"adamw_{name}")
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64] + ([ctypes.c_char_p] if name == "state" else [])
library.adamw_step.argtypes = [ctypes.c_void_p, ctypes.c_double]
library.adamw_destroy.argtypes = [ctypes.c_void_p]

run = library.adamw_create(COUNT, ROWS, COLUMNS, a.threads)


def tensor(address):
    if address is None:
        raise SystemExit("the library names its state otherwise")
    floats = (ctypes.c_float * (ROWS * COLUMNS)).from_address(address)
    return torch.frombuffer(floats, dtype=torch.float32).view(ROWS, COLUMNS)


parameters = []
for i in range(COUNT):
    parameter = torch.nn.Parameter(tensor(library.adamw_values(run, i)))
    parameter.grad = tensor(library.adamw_gradient(run, i))
    parameters.append(parameter)
optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
for i, parameter in enumerate(parameters):
    optimizer.state[parameter] = {
        "step": torch.tensor(0.0),
        "exp_avg": tensor(library.adamw_state(run, i, b"exp_avg")),
        "exp_avg_sq": tensor(library.adamw_state(run, i, b"exp_avg_sq")),
    }

steps = {"lacuna": lambda: library.adamw_step(run, 1e-3), "pytorch": optimizer.step}
times = {name: [] for name in steps}
for number in range(a.steps + 2):  # two warm up
    for name in sorted(steps, reverse=number % 2 == 1):
        step = steps[name]
        before = [parameters[0].data_ptr(), parameters[0][0, 0].item()]
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        if before[1] == parameters[0][0, 0].item() or before[0] != parameters[0].data_ptr():
            raise SystemExit(f"{name}: the step did not change the shared parameters")
        if number >= 2:
            times[name].append(seconds)
print(json.dumps(times))
library.adamw_destroy(run)
