#!/usr/bin/env python3
"""Small references of graph networks, one safetensors file a case, as `lacuna verify` reads them: PyTorch Geometric's, and CogDL
0.6's layers written here over a dense matrix of edges.

    pip install torch torch_geometric safetensors
    make_graph_references.py [OUT [CASE ...]]     OUT is by default references/ beside this script

The graph is directed, and has a hub, a loop, a node without edges, and nodes outside the mask of training.
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv

NODES, FEATURES, CLASSES = 14, 6, 3
MODEL = dict(library="pyg", features=FEATURES, num_classes=CLASSES, dropout=0, norm="none")
COGDL = dict(MODEL, library="cogdl", norm="batchnorm")
ADAM = dict(name="adam", lr=0.01, weight_decay=5e-4, betas=[0.9, 0.999], eps=1e-5)
SGD = dict(name="sgd", lr=0.1, momentum=0.9, weight_decay=1e-3)
CASES = {
    "graph-gcn": (dict(MODEL, family="gcn", hidden=8, layers=3), ADAM),
    "graph-gat": (dict(MODEL, family="gat", hidden=4, heads=2, layers=2, attention_dropout=0), ADAM),
    "graph-gcnii": (dict(MODEL, family="gcnii", hidden=8, layers=2, alpha=0.2, **{"lambda": 0.7}, shared=False), SGD),
    "graph-gcn-cogdl": (dict(COGDL, family="gcn", hidden=8, layers=3), ADAM),
    "graph-gat-cogdl": (dict(COGDL, family="gat", hidden=4, heads=2, layers=2, attention_dropout=0, residual=True,
                             norm="none"), SGD),
    "graph-gcnii-cogdl": (dict(COGDL, family="gcnii", hidden=8, layers=3, alpha=0.2, residual=True, norm="none",
                               **{"lambda": 0.7}), ADAM),
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


class CogdlLayer(torch.nn.Module):
    """One of GCN, GAT or GCNII; the last has neither norm nor activation."""
    def __init__(self, m, wide, out, heads, is_last):
        super().__init__()
        self.family, self.heads, self.is_last = m["family"], heads, is_last
        if self.family == "gat":
            self.W = torch.nn.Parameter(torch.empty(wide, heads * out))
            self.a_l, self.a_r = (torch.nn.Parameter(torch.empty(1, heads, out)) for _ in range(2))
            if m["residual"] and not is_last:
                self.residual = torch.nn.Linear(wide, heads * out)
        else:
            self.linear = torch.nn.Linear(wide, out)
        if m["norm"] == "batchnorm" and not is_last:
            self.norm = torch.nn.BatchNorm1d(heads * out)

    def forward(self, x, edges, normalized):
        if self.family == "gat":
            h = (x @ self.W).unflatten(1, (self.heads, -1))
            scores = F.leaky_relu((self.a_l * h).sum(-1)[:, None] + (self.a_r * h).sum(-1)[None], 0.2)
            weights = scores.masked_fill(edges[..., None] == 0, -math.inf).softmax(1)
            y = torch.einsum("tsk,skc->tkc", weights, h).flatten(1)
            y = y + self.residual(x) if hasattr(self, "residual") else y
        else:
            y = normalized @ self.linear(x)
        y = self.norm(y) if hasattr(self, "norm") else y
        return y if self.is_last else F.relu(y)


class Cogdl(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m, hidden, heads = m, m["hidden"], m.get("heads", 1)
        if m["family"] == "gcnii":
            self.fc_layers = torch.nn.ModuleList([torch.nn.Linear(FEATURES, hidden), torch.nn.Linear(hidden, CLASSES)])
            self.layers = torch.nn.ModuleList(torch.nn.Module() for _ in range(m["layers"]))
            for layer in self.layers:
                layer.linear = torch.nn.Linear(hidden, hidden)
            return
        made = torch.nn.ModuleList()
        for i in range(m["layers"]):
            is_last = i + 1 == m["layers"]
            made.append(CogdlLayer(m, hidden * heads if i else FEATURES, CLASSES if is_last else hidden, 1 if is_last else heads,
                                   is_last))
        setattr(self, "attentions" if m["family"] == "gat" else "layers", made)

    def forward(self, x, pairs):
        m, edges = self.m, torch.eye(len(x))
        edges[pairs[1], pairs[0]] = 1
        scale = edges.sum(1).rsqrt()
        normalized = scale[:, None] * edges * scale
        if m["family"] != "gcnii":
            for layer in self.attentions if m["family"] == "gat" else self.layers:
                x = layer(x, edges, normalized)
            return x
        x = first = F.relu(self.fc_layers[0](x))
        for i, layer in enumerate(self.layers):
            beta = math.log(m["lambda"] / (i + 1) + 1)
            mixed = (1 - m["alpha"]) * normalized @ x + m["alpha"] * first
            y = beta * layer.linear(mixed) + (1 - beta) * mixed
            x = F.relu(y + x if m["residual"] else y)
        return self.fc_layers[1](x)


def drawn_edges():
    """[2, E], from and to: node 0 is a hub, node 3 has a loop, the last node has no edge."""
    pairs = {(v, 0) for v in range(1, NODES - 1)} | {(0, v) for v in range(2, NODES - 1, 3)} | {(3, 3)}
    pairs |= {tuple(pair) for pair in torch.randint(1, NODES - 1, (16, 2)).tolist() if pair[0] != pair[1]}
    return torch.tensor(sorted(pairs)).T.contiguous()


def write(path, m, opt):
    torch.manual_seed(len(path.name))
    net = Cogdl(m) if m["library"] == "cogdl" else Net(m)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    x, edges, target = torch.randn(NODES, FEATURES), drawn_edges(), torch.randint(0, CLASSES, (NODES,))
    mask = torch.arange(NODES) % 4 != 1
    named = lambda prefix: {f"{prefix}/{name}": tensor.detach().clone() for name, tensor in net.state_dict().items()
                            if tensor.is_floating_point()}
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
