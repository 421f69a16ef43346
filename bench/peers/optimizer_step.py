#!/usr/bin/env python3
"""PyTorch's side of bench/optimizer.py: a step over 86 million parameters.

    optimizer_step.py {fused,foreach,single} [--optimizer AdamW] [--threads 2]

Prints `seconds S temporaries B`: the shortest of the steps timed, and by how many bytes the process's peak grew in the
first step after the state was there.
"""
import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("form", choices=["fused", "foreach", "single"])
parser.add_argument("--optimizer", default="AdamW")
parser.add_argument("--threads", type=int, default=2)
a = parser.parse_args()

torch.set_num_threads(a.threads)
parameters = [torch.nn.Parameter(torch.full((2000, 2048), 0.02)) for _ in range(21)]
for parameter in parameters:
    parameter.grad = torch.full_like(parameter, 0.001)
forms = {"fused": {"fused": True}, "foreach": {"foreach": True}, "single": {"foreach": False, "fused": False}}
optimizer = getattr(torch.optim, a.optimizer)(parameters, lr=1e-3, **forms[a.form])


def resident():
    """Bytes: now, and at their highest since it was reset."""
    fields = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith("Vm"))
    return [int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM")]


# The state is made in the first step; what it takes beside that is seen in the second.
optimizer.step()
before = resident()[0]
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here
optimizer.step()
temporaries = max(resident()[1] - before, 0)
optimizer.step()
times = []
for _ in range(7):
    start = time.perf_counter()
    optimizer.step()
    times.append(time.perf_counter() - start)
print("seconds", min(times), "temporaries", temporaries)
