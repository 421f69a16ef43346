#!/usr/bin/env python3
"""Writes references.txt: trajectories of torch.optim and learning rates of torch's and timm's schedulers.

    python3 make_references.py > references.txt        (needs torch 2.15, timm and transformers)

A trajectory: a line `optimizer NAME key value ...`, then 20 lines with the values of `weight` [rows, columns] and of
`bias` [rows] after each step. A schedule: a line `schedule NAME key value ...`, then one line with a rate a step.
Initial values and gradients follow from the formula `drawn`, which the test has too.
"""
import timm.optim
import torch
import transformers
from timm.scheduler import CosineLRScheduler

STEPS = 20


def drawn(site, count):
    """Numbers in [-2, 2] that are exact in float."""
    return [(((i + 1) * 7919 + (site + 1) * 104729) % 2049 - 1024) / 512 for i in range(count)]


KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adan": timm.optim.Adan,
         "lion": timm.optim.Lion, "lamb": timm.optim.Lamb, "adagrad": torch.optim.Adagrad,
         "adafactor": transformers.Adafactor}


class MuonWithAdamW:
    """torch.optim.Muon for the matrix and torch.optim.AdamW for the bias."""

    def __init__(self, groups, lr, weight_decay=0.1, adamw_lr_scale=1.0, adamw_eps=1e-8, betas=(0.9, 0.999), **settings):
        self.parts = [torch.optim.Muon(groups[0]["params"], lr=lr, weight_decay=weight_decay, **settings),
                      torch.optim.AdamW(groups[1]["params"], lr=lr, betas=betas, eps=adamw_eps,
                                        weight_decay=groups[1].get("weight_decay", weight_decay))]
        self.scales = [1.0, adamw_lr_scale]

    def set_lr(self, lr):
        for part, scale in zip(self.parts, self.scales):
            part.param_groups[0]["lr"] = lr * scale

    def step(self):
        # Muon rounds to torch.bfloat16 before its products of matrices; the trajectory is that in f32.
        rounded, torch.bfloat16 = torch.bfloat16, torch.float32
        for part in self.parts:
            part.step()
        torch.bfloat16 = rounded


def word(setting):
    """As the line of a trajectory has it."""
    return setting if isinstance(setting, str) else str(float(setting))


def trajectory(name, lr, max_norm=0.0, parameter_norm=0.0, value=0.0, bf16=False, falls=False,
               decay_norm_and_bias=True, rows=2, columns=3, **settings):
    """`bf16`: gradients of bf16 parameters, whose masters in f32 are updated. `falls`: linearly, to half at the end."""
    weight = torch.nn.Parameter(torch.tensor(drawn(100, rows * columns)).reshape(rows, columns))
    bias = torch.nn.Parameter(torch.tensor(drawn(101, rows)))
    groups = [{"params": [weight]}, {"params": [bias]}]
    if not decay_norm_and_bias:
        groups[1]["weight_decay"] = 0.0
    arguments = dict(settings)
    betas = [arguments.pop(key) for key in ("beta1", "beta2", "beta3") if key in arguments]
    if betas:
        arguments["betas"] = tuple(betas)
    if name == "lamb":
        arguments["max_grad_norm"] = None
    if name == "adafactor":
        arguments.setdefault("relative_step", False)
        arguments["eps"] = (arguments.get("eps", 1e-30), arguments.pop("eps_scale", 1e-3))
        if "beta1" in settings:
            arguments["beta1"] = arguments.pop("betas")[0]
        optimizer = transformers.Adafactor(groups, lr=None if arguments["relative_step"] else lr, **arguments)
    elif name == "muon":
        optimizer = MuonWithAdamW(groups, lr, **arguments)
    else:
        optimizer = KINDS[name](groups, lr=lr, foreach=False, **arguments)
    print("optimizer", name, "lr", lr, "max_norm", max_norm, "parameter_norm", parameter_norm, "value", value,
          "bf16", int(bf16), "falls", int(falls), "rows", rows, "columns", columns,
          "decay_norm_and_bias", int(decay_norm_and_bias),
          *[text for key, setting in settings.items() for text in (key, word(setting))])
    for step in range(STEPS):
        weight.grad = torch.tensor(drawn(2 * step, rows * columns)).reshape(rows, columns)
        bias.grad = torch.tensor(drawn(2 * step + 1, rows))
        if bf16:
            weight.grad, bias.grad = weight.grad.bfloat16().float(), bias.grad.bfloat16().float()
        if max_norm > 0:
            torch.nn.utils.clip_grad_norm_([weight, bias], max_norm)
        if parameter_norm > 0:
            for parameter in (weight, bias):
                torch.nn.utils.clip_grad_norm_([parameter], parameter_norm)
        if value > 0:
            torch.nn.utils.clip_grad_value_([weight, bias], value)
        now = lr * (1 - step / (2 * STEPS)) if falls else lr
        if name == "muon":
            optimizer.set_lr(now)
        elif not settings.get("relative_step"):
            for group in optimizer.param_groups:
                group["lr"] = now
        optimizer.step()
        print(*["%.9g" % number for number in [*weight.flatten().tolist(), *bias.tolist()]])


def rates(name, make, lr, total_steps, steps_per_epoch, step_of, **settings):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make(optimizer)
    values = []
    for step in range(total_steps):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        step_of(scheduler, step + 1)
    words = []
    for key, value in settings.items():
        words += [key, ",".join(str(v) for v in value) if isinstance(value, list) else value]
    print("schedule", name, "lr", lr, "total_steps", total_steps, "steps_per_epoch", steps_per_epoch, *words)
    print(*["%.17g" % value for value in values])


if __name__ == "__main__":
    trajectory("sgd", 0.1)
    trajectory("sgd", 0.1, weight_decay=0.05)
    trajectory("sgd", 0.05, momentum=0.9)
    trajectory("sgd", 0.05, momentum=0.9, weight_decay=0.01, nesterov=True, decay_norm_and_bias=False)
    trajectory("adamw", 0.05)
    trajectory("adamw", 0.01, weight_decay=0.3, beta1=0.8, beta2=0.95, eps=0.01)
    trajectory("adamw", 0.01, weight_decay=0.3, decay_norm_and_bias=False)
    trajectory("adamw", 0.01, weight_decay=0.1, max_norm=1.0, eps=0.1)

    trajectory("adam", 0.01, weight_decay=0.1, beta1=0.8, beta2=0.95)
    trajectory("adam", 0.05, value=0.5, falls=True)
    trajectory("adamw", 0.01, parameter_norm=1.0, weight_decay=0.1, eps=0.1)
    trajectory("adamw", 0.01, bf16=True, falls=True, weight_decay=0.1)
    trajectory("sgd", 0.05, momentum=0.9, value=0.25, bf16=True)
    trajectory("adan", 0.05)
    trajectory("adan", 0.05, weight_decay=0.2, beta1=0.9, beta2=0.8, beta3=0.95, eps=0.001, falls=True)
    trajectory("adan", 0.05, weight_decay=0.2, no_prox=True, bf16=True, decay_norm_and_bias=False)
    trajectory("lion", 0.01, weight_decay=0.1)
    trajectory("lion", 0.01, beta1=0.7, beta2=0.8, weight_decay=0.3, falls=True, decay_norm_and_bias=False)
    trajectory("lamb", 0.01)
    trajectory("lamb", 0.02, weight_decay=0.2, beta1=0.8, beta2=0.9, falls=True, max_norm=1.0)
    trajectory("lamb", 0.02, weight_decay=0.2, trust_clip=True, always_adapt=True, decay_norm_and_bias=False)
    trajectory("adagrad", 0.05)
    trajectory("adagrad", 0.1, weight_decay=0.2, lr_decay=0.3, eps=0.01, falls=True, decay_norm_and_bias=False)
    trajectory("adagrad", 0.05, max_norm=1.0, bf16=True)

    trajectory("muon", 0.02)
    trajectory("muon", 0.05, rows=6, columns=4, weight_decay=0.3, momentum=0.8, nesterov=False, falls=True,
               adjust_lr_fn="match_rms_adamw", beta1=0.8, beta2=0.95, adamw_eps=1e-3, decay_norm_and_bias=False)
    trajectory("muon", 0.05, rows=7, columns=3, ns_steps=3, eps=1e-3, adamw_lr_scale=0.25, bf16=True)
    trajectory("muon", 0.02, rows=5, columns=5, max_norm=0.5)
    trajectory("adafactor", 0.05)
    trajectory("adafactor", 1.0, rows=4, columns=6, relative_step=True)
    trajectory("adafactor", 1.0, rows=4, columns=6, relative_step=True, warmup_init=True, weight_decay=0.1)
    trajectory("adafactor", 0.02, rows=5, columns=3, scale_parameter=False, beta1=0.9, weight_decay=0.2, falls=True,
               decay_norm_and_bias=False)
    trajectory("adafactor", 0.1, eps=1e-3, eps_scale=0.5, clip_threshold=0.25, decay_rate=-0.5, beta1=0.5, bf16=True)
    trajectory("adafactor", 0.05, value=0.5)

    rates("step", lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [6, 15], 0.2), 0.1, 20, 3,
          lambda scheduler, step: scheduler.step(), milestones=[2, 5], gamma=0.2)
    rates("cosine", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20, 0.01), 0.1, 20, 4,
          lambda scheduler, step: scheduler.step(), min_lr=0.01)
    rates("cosine", lambda o: CosineLRScheduler(o, 24, lr_min=0.001, warmup_t=6, warmup_lr_init=0.002,
                                                t_in_epochs=False), 0.1, 24, 4,
          lambda scheduler, step: scheduler.step_update(step), min_lr=0.001, warmup_epochs=1.5, warmup_lr=0.002)
    rates("cosine", lambda o: CosineLRScheduler(o, 8, lr_min=0.001, cycle_mul=1.5, cycle_decay=0.5, cycle_limit=99,
                                                t_in_epochs=False), 0.1, 40, 4,
          lambda scheduler, step: scheduler.step_update(step), min_lr=0.001, cycle_epochs=2, cycle_mul=1.5,
          cycle_decay=0.5)
    rates("cosine", lambda o: CosineLRScheduler(o, 10, warmup_t=5, warmup_lr_init=0.01, cycle_limit=99,
                                                t_in_epochs=False), 0.1, 30, 5,
          lambda scheduler, step: scheduler.step_update(step), cycle_epochs=2, warmup_epochs=1, warmup_lr=0.01)
    rates("linear", lambda o: transformers.get_linear_schedule_with_warmup(o, 6, 24), 0.1, 24, 4,
          lambda scheduler, step: scheduler.step(), warmup_epochs=1.5, warmup_lr=0)
    rates("polynomial", lambda o: transformers.get_polynomial_decay_schedule_with_warmup(o, 4, 24, 0.01, 2), 0.1, 24, 4,
          lambda scheduler, step: scheduler.step(), warmup_epochs=1, warmup_lr=0, min_lr=0.01, power=2)
    rates("one_cycle", lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 20, cycle_momentum=False), 0.1, 20, 4,
          lambda scheduler, step: scheduler.step() if step < 20 else None)
    rates("one_cycle", lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 25, pct_start=0.5, div_factor=10,
                                                                     final_div_factor=100, cycle_momentum=False),
          0.1, 25, 5, lambda scheduler, step: scheduler.step() if step < 25 else None, rise=0.5, start_divisor=10,
          end_divisor=100)
