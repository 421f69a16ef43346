#!/usr/bin/env python3
"""Writes graphsaint/ beside it: a graph of five nodes as GraphSAINT's folders have them, as scipy.sparse.save_npz writes CSR."""
import json
import pathlib

import numpy as np

folder = pathlib.Path(__file__).parent / "graphsaint"
folder.mkdir(exist_ok=True)


def save(name, rows):
    indices = np.concatenate([np.array(row, dtype=np.int32) for row in rows])
    indptr = np.cumsum([0] + [len(row) for row in rows]).astype(np.int32)
    np.savez_compressed(folder / name, indices=indices, indptr=indptr, format=np.array(b"csr"), shape=np.array([5, 5]),
                        data=np.ones(len(indices), dtype=bool))


save("adj_full.npz", [[1, 4], [0, 2], [1], [], [0]])
save("adj_train.npz", [[1], [0, 2], [1], [], []])
np.save(folder / "feats.npy", np.arange(10, dtype=np.float64).reshape(5, 2))
(folder / "class_map.json").write_text(json.dumps({str(v): c for v, c in enumerate([2, 0, 1, 1, 0])}))
(folder / "role.json").write_text(json.dumps({"tr": [0, 1, 2], "va": [3], "te": [4]}))
