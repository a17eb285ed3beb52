"""Training of networks side by side, each with its own seed and rates, by one rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studies.forward_only.networks import Networks
from studies.forward_only.rules import Signals, backward, direct, gaussian, injected, orthonormal, two_passes

LEARNERS = (
    "FOTON",
    "backprop, orthogonal",
    "backprop, free",
    "PEPITA",
    "feedback alignment",
    "direct feedback alignment",
    "last layer alone",
    "first and last layer",
    "FOTON, F random",
    "FOTON, no projection",
)
PROJECTED = ("FOTON", "backprop, orthogonal", "FOTON, F random")


@dataclass(frozen=True)
class Plan:
    """One training of networks side by side."""

    arm: str
    depth: int
    width: int
    steps: int
    batch: int
    optimizer: str = "adam"
    scale: float = 0.05  # deviation of the random F


class Learner:
    """A rule with what it holds fixed: the random matrices, drawn by seed."""

    def __init__(self, arm: str, net: Networks, make: Any, seeds: list[int], scale: float, sizes: tuple[int, int, int], kind: Tensor):
        self.arm, self.net = arm, net
        inputs, width, outputs = sizes
        generators = [torch.Generator().manual_seed(10**6 + seed) for seed in seeds]
        self.back = net
        if arm == "feedback alignment":
            self.back = make([10**6 + seed for seed in seeds])
        if arm == "direct feedback alignment":
            hidden = len(net.order) - 1 - net.lift
            self.matrices = [orthonormal(width, outputs, generators, kind) for _ in range(hidden)]
            self.lifting = orthonormal(width, outputs, generators, kind)
        if arm in ("PEPITA", "FOTON, F random"):
            self.random = gaussian(inputs, outputs, scale, generators, kind)

    def signals(self, x, states, e) -> tuple[Signals, Tensor | None]:
        """Of the layers behind h_0, and the cotangent of the lift."""
        net, arm = self.net, self.arm
        if arm in ("FOTON", "FOTON, no projection"):
            u = injected(net, e)
            return two_passes(net, states, e, u), u
        if arm in ("PEPITA", "FOTON, F random"):
            from studies.forward_only.rules import through
            if arm == "PEPITA" and net.lift:
                u = through(self.random, e, x)
                group, i = net.order[0]
                again = group.apply(i, x - u)
                return two_passes(net, states, e, states[0] - again, modulated=True), states[0] - again
            u = through(self.random, e, states[0])
            return two_passes(net, states, e, u, modulated=arm == "PEPITA"), u
        if arm == "direct feedback alignment":
            from studies.forward_only.rules import through
            return direct(net, states, e, self.matrices), (through(self.lifting, e, states[0]) if net.lift else None)
        found = backward(net, states, e, self.back)
        first = None
        if net.lift:
            group, i = self.back.order[1]
            first = group.transposed(i, found[1][0])
        return found, first


def train(task: Any, plan: Plan, seeds: list[int], rates: Any, shares: Any, looks=(), dtype=torch.float32) -> dict[str, Any]:
    kind = torch.empty(0, dtype=dtype)
    make = lambda s: task.networks(plan.width, plan.depth, s, kind)
    net = make(seeds)
    x, y = (v.to(dtype) if v.is_floating_point() else v for v in task.parts[0])
    points = task.points
    count = len(x) // points if False else len(x)
    N = len(seeds)
    rates = torch.as_tensor(rates, dtype=dtype); shares = torch.as_tensor(shares, dtype=dtype)
    arm = plan.arm
    sizes = ((plan.width if (net.lift and arm!="PEPITA") else task.inputs) * points, plan.width * points, task.outputs * points)
    learner = Learner(arm, net, make, seeds, plan.scale, sizes, kind)
    moving = []
    for g, group in enumerate(net.groups):
        last = g == len(net.groups) - 1
        if arm == "last layer alone" and not last: continue
        if arm == "first and last layer" and not (last or g == 0): continue
        for j, p in enumerate(group.parameters):
            rate = rates if last else rates * shares
            moving.append((g, j, p, rate.view(1, N, *[1] * (p.ndim - 2)), torch.zeros_like(p), torch.zeros_like(p)))
    uniq = sorted(set(seeds)); rngs = {s: np.random.default_rng(s) for s in uniq}; orders = {s: np.empty(0, int) for s in uniq}
    at = [uniq.index(s) for s in seeds]
    cos = []
    for step in range(plan.steps):
        for s in uniq:
            if len(orders[s]) < plan.batch: orders[s] = rngs[s].permutation(count)
        idx = np.stack([orders[s][:plan.batch] for s in uniq])[at]
        for s in uniq: orders[s] = orders[s][plan.batch:]
        bx, by = x[idx].reshape(N, -1, task.inputs), y[idx]
        grads = gradients(task, net, learner, bx, by)
        if step in looks:
            true = gradients(task, net, Learner("backprop, free", net, make, seeds, 0, sizes, kind), bx, by)
            cos.append(angles(net, grads, true))
        decay = 0.5 * (1 + math.cos(math.pi * step / plan.steps))
        for g, j, p, rate, m, v in moving:
            grad = grads[g][j]
            if plan.optimizer == "adam":
                m.mul_(0.9).add_(grad, alpha=0.1); v.mul_(0.999).addcmul_(grad, grad, value=0.001)
                a = math.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
                p -= rate * decay * a * m / (v.sqrt() + 1e-8)
            else:
                p -= rate * decay * grad
        if arm in PROJECTED: net.project()
    out = {"cos": cos}
    for name, (px, py) in zip(("train", "validation", "test"), task.parts):
        px = px.to(dtype).reshape(-1, task.inputs)
        errs = []
        for start in range(0, len(px), 400 * points):
            z = px[start:start + 400 * points]
            _, pred = net.run(z.expand(N, *z.shape), hidden=False)
            errs.append(task.errors(pred.reshape(N, -1, points, task.outputs) , py[start // points: (start + 400 * points) // points]))
        e = torch.cat(errs, 1)
        out[name] = torch.where(e.isfinite(), e, math.inf).numpy()
    return out


def gradients(task, net, learner, bx, by):
    states, pred = net.run(bx)
    e = task.error(pred, by)
    (inputs, cotangents), lifted = learner.signals(bx, states, e)
    batch = by.shape[1]
    found, start = [], 0
    groups = net.groups
    if net.lift:
        found.append(groups[0].gradients(bx[None], lifted[None] / batch))
        groups = groups[1:]
    for group in groups:
        part = slice(start, start + group.count)
        found.append(group.gradients(torch.stack(inputs[part]), torch.stack(cotangents[part]) / batch))
        start += group.count
    return found


def angles(net, grads, true):
    found = {}
    hidden = [(a, b) for g, (a, b) in enumerate(zip(grads, true)) if g < len(net.groups) - 1 and g >= net.lift]
    cs = []
    for (a, *_), (b, *_) in hidden:
        a, b = a.flatten(2), b.flatten(2)
        cs.append((a * b).sum(2) / (a.norm(dim=2) * b.norm(dim=2)))
    return torch.cat(cs)  # (layers, N)
