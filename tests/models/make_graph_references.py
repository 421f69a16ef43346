#!/usr/bin/env python3
"""Small references of graph networks from PyTorch Geometric, one safetensors file a case, as `lacuna verify` reads them.

    pip install torch torch_geometric safetensors
    make_graph_references.py [OUT [CASE ...]]     OUT is by default references/ beside this script

The graph is directed, and has a hub, a loop, a node without edges, and nodes outside the mask of training.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv

NODES, FEATURES, CLASSES = 14, 6, 3
MODEL = dict(library="pyg", features=FEATURES, num_classes=CLASSES, dropout=0, norm="none")
ADAM = dict(name="adam", lr=0.01, weight_decay=5e-4, betas=[0.9, 0.999], eps=1e-5)
SGD = dict(name="sgd", lr=0.1, momentum=0.9, weight_decay=1e-3)
CASES = {
    "graph-gcn": (dict(MODEL, family="gcn", hidden=8, layers=3), ADAM),
    "graph-gat": (dict(MODEL, family="gat", hidden=4, heads=2, layers=2, attention_dropout=0), ADAM),
    "graph-gcnii": (dict(MODEL, family="gcnii", hidden=8, layers=2, alpha=0.2, **{"lambda": 0.7}, shared=False), SGD),
    "graph-gcnii-shared": (dict(MODEL, family="gcnii", hidden=8, layers=2, shared=True), None),
}


class Net(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.family = m["family"]
        layers, hidden = range(m["layers"]), m["hidden"]
        is_last = lambda i: i + 1 == m["layers"]
        if self.family == "gcn":
            self.convs = [GCNConv(hidden if i else FEATURES, CLASSES if is_last(i) else hidden) for i in layers]
        elif self.family == "gat":
            wide = hidden * m["heads"]
            self.convs = [GATConv(wide if i else FEATURES, CLASSES if is_last(i) else hidden,
                                  1 if is_last(i) else m["heads"]) for i in layers]
        else:
            self.lins = torch.nn.ModuleList([torch.nn.Linear(FEATURES, hidden), torch.nn.Linear(hidden, CLASSES)])
            self.convs = [GCN2Conv(hidden, m.get("alpha", 0.1), m.get("lambda", 0.5), i + 1, m["shared"]) for i in layers]
        self.convs = torch.nn.ModuleList(self.convs)

    def forward(self, x, edges):
        if self.family == "gcnii":
            x = first = F.relu(self.lins[0](x))
            for conv in self.convs:
                x = F.relu(conv(x, first, edges))
            return self.lins[1](x)
        for i, conv in enumerate(self.convs):
            x = conv(x, edges)
            if i + 1 < len(self.convs):
                x = F.elu(x) if self.family == "gat" else F.relu(x)
        return x


def drawn_edges():
    """[2, E], from and to: node 0 is a hub, node 3 has a loop, the last node has no edge."""
    pairs = {(v, 0) for v in range(1, NODES - 1)} | {(0, v) for v in range(2, NODES - 1, 3)} | {(3, 3)}
    pairs |= {tuple(pair) for pair in torch.randint(1, NODES - 1, (16, 2)).tolist() if pair[0] != pair[1]}
    return torch.tensor(sorted(pairs)).T.contiguous()


def write(path, m, opt):
    torch.manual_seed(len(path.name))
    net = Net(m)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    x, edges, target = torch.randn(NODES, FEATURES), drawn_edges(), torch.randint(0, CLASSES, (NODES,))
    mask = torch.arange(NODES) % 4 != 1
    named = lambda prefix: {f"{prefix}/{name}": tensor.detach().clone() for name, tensor in net.named_parameters()}
    tensors = {"input/features": x, "input/edges": edges, "input/train_mask": mask.to(torch.uint8), "target": target,
               **named("weight")}
    logits = net(x, edges)
    loss = F.cross_entropy(logits[mask], target[mask])
    loss.backward()
    tensors |= {"output/logits": logits.detach(), "output/loss": loss.detach()}
    tensors |= {f"grad/{name}": parameter.grad for name, parameter in net.named_parameters()}
    metadata = {"model": json.dumps(m)}
    if opt:
        make = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[opt["name"]]
        make(net.parameters(), **{key: value for key, value in opt.items() if key != "name"}).step()
        tensors |= named("after")
        metadata["optimizer"] = json.dumps(opt)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata)


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "references")
    for case in sys.argv[2:] or CASES:
        write(out / f"{case}.safetensors", *CASES[case])


main()
