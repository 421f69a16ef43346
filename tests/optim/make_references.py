#!/usr/bin/env python3
"""Writes references.txt: trajectories of torch.optim and learning rates of torch's and timm's schedulers.

    python3 make_references.py > references.txt        (needs torch and timm)

A trajectory: a line `optimizer NAME key value ...`, then 20 lines with the 6 values of `weight` [2, 3] and the 2 of
`bias` [2] after each step. A schedule: a line `schedule NAME key value ...`, then one line with a rate a step.
Initial values and gradients follow from the formula `drawn`, which the test has too.
"""
import torch
from timm.scheduler import CosineLRScheduler

STEPS = 20


def drawn(site, count):
    """Numbers in [-2, 2] that are exact in float."""
    return [(((i + 1) * 7919 + (site + 1) * 104729) % 2049 - 1024) / 512 for i in range(count)]


def trajectory(name, lr, max_norm=0.0, decay_norm_and_bias=True, **settings):
    weight = torch.nn.Parameter(torch.tensor(drawn(100, 6)).reshape(2, 3))
    bias = torch.nn.Parameter(torch.tensor(drawn(101, 2)))
    groups = [{"params": [weight]}, {"params": [bias]}]
    if not decay_norm_and_bias:
        groups[1]["weight_decay"] = 0.0
    arguments = dict(settings)
    if name == "adamw" and "beta1" in settings:
        arguments["betas"] = (arguments.pop("beta1"), arguments.pop("beta2"))
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[name]
    optimizer = kind(groups, lr=lr, foreach=False, **arguments)
    print("optimizer", name, "lr", lr, "max_norm", max_norm, "decay_norm_and_bias", int(decay_norm_and_bias),
          *[word for key, value in settings.items() for word in (key, float(value))])
    for step in range(STEPS):
        weight.grad = torch.tensor(drawn(2 * step, 6)).reshape(2, 3)
        bias.grad = torch.tensor(drawn(2 * step + 1, 2))
        if max_norm > 0:
            torch.nn.utils.clip_grad_norm_([weight, bias], max_norm)
        optimizer.step()
        print(*["%.9g" % value for value in [*weight.flatten().tolist(), *bias.tolist()]])


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
    trajectory("adamw", 0.001)
    trajectory("adamw", 0.01, weight_decay=0.3, beta1=0.8, beta2=0.95, eps=0.01)
    trajectory("adamw", 0.01, weight_decay=0.3, decay_norm_and_bias=False)
    trajectory("adamw", 0.01, weight_decay=0.1, max_norm=1.0, eps=0.1)

    rates("step", lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [6, 15], 0.2), 0.1, 20, 3,
          lambda scheduler, step: scheduler.step(), milestones=[2, 5], gamma=0.2)
    rates("cosine", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20, 0.01), 0.1, 20, 4,
          lambda scheduler, step: scheduler.step(), min_lr=0.01)
    rates("cosine", lambda o: CosineLRScheduler(o, 24, lr_min=0.001, warmup_t=6, warmup_lr_init=0.002,
                                                t_in_epochs=False), 0.1, 24, 4,
          lambda scheduler, step: scheduler.step_update(step), min_lr=0.001, warmup_epochs=1.5, warmup_lr=0.002)
