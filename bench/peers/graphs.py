#!/usr/bin/env python3
"""PyTorch Geometric's side of bench/graphs.py: a full-batch training step of a graph network at ogbn-arxiv's size.

    graphs.py MODEL [--hidden 256] [--heads 4] [--layers 3] [--threads 2] [--steps 3]

MODEL is gcn (GCNConv with its normalisation cached) or gat (GATConv, `hidden` wide with all heads); batch norm, ReLU and dropout
of 0.5 between the layers, Adam. Prints one line with `X samples/s best, Y median; kept K MiB; peak RSS P MiB` in it, of steps.
"""
import argparse
import time

import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, GCNConv

from steps import kept_bytes, print_line

NODES, PAIRS, FEATURES, CLASSES, TRAIN = 169343, 1157799, 128, 40, 90941


class Net(torch.nn.Module):
    def __init__(self, a):
        super().__init__()
        wide = [FEATURES] + [a.hidden] * (a.layers - 1)
        if a.model == "gcn":
            self.convs = torch.nn.ModuleList(GCNConv(w, CLASSES if i + 1 == a.layers else a.hidden, cached=True)
                                             for i, w in enumerate(wide))
        else:
            self.convs = torch.nn.ModuleList(
                GATConv(w, CLASSES, 1, concat=False, dropout=0.1) if i + 1 == a.layers
                else GATConv(w, a.hidden // a.heads, a.heads, dropout=0.1) for i, w in enumerate(wide))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(a.hidden) for _ in wide[1:])

    def forward(self, x, edges):
        for i, conv in enumerate(self.convs):
            x = conv(x, edges)
            if i < len(self.norms):
                x = F.dropout(F.relu(self.norms[i](x)), 0.5, self.training)
        return x


def drawn():
    """Pairs whose ends follow a power law, both ways."""
    g = torch.Generator().manual_seed(1)
    ends = torch.cumsum((torch.arange(NODES) + 10.0) ** -0.6, 0, dtype=torch.float64)
    nodes = torch.randperm(NODES, generator=g)
    pick = lambda: nodes[torch.searchsorted(ends, torch.rand(PAIRS, generator=g, dtype=torch.float64) * ends[-1])]
    a, b = pick(), pick()
    return torch.stack((torch.cat((a, b)), torch.cat((b, a))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["gcn", "gat"])
    for name, value in dict(hidden=256, heads=4, layers=3, threads=2, steps=3).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    net, edges = Net(a).train(), drawn()
    x, labels = torch.randn(NODES, FEATURES), torch.randint(0, CLASSES, (NODES,))
    train = torch.randperm(NODES)[:TRAIN]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def loss():
        return F.cross_entropy(net(x, edges)[train], labels[train])

    kept = kept_bytes([*net.parameters(), *net.buffers(), x, edges, labels], loss)
    seconds = []
    for _ in range(a.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print_line(1, seconds, kept)


main()
