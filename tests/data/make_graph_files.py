#!/usr/bin/env python3
"""Writes graphsaint/ and ogb/ beside it: graphs of five nodes as GraphSAINT's folders and OGB's raw folders have them, by the
libraries that write theirs (numpy, scipy, pandas). adj_full.npz is deflated and has i32, adj_train.npz is stored and has i64."""
import json
import pathlib

import numpy as np
import pandas as pd
import scipy.sparse

here = pathlib.Path(__file__).parent


def save(file, rows, compressed, kind):
    indices = np.concatenate([np.array(row, dtype=kind) for row in rows])
    starts = np.cumsum([0] + [len(row) for row in rows]).astype(kind)
    matrix = scipy.sparse.csr_matrix((5, 5), dtype=bool)
    matrix.data, matrix.indices, matrix.indptr = np.ones(len(indices), dtype=bool), indices, starts
    scipy.sparse.save_npz(file, matrix, compressed)


saint = here / "graphsaint"
saint.mkdir(exist_ok=True)
save(saint / "adj_full.npz", [[1, 4], [0, 2], [1], [], [0]], True, np.int32)
save(saint / "adj_train.npz", [[1], [0, 2], [1], [], []], False, np.int64)
np.save(saint / "feats.npy", np.arange(10, dtype=np.float64).reshape(5, 2))
(saint / "class_map.json").write_text(json.dumps({str(v): c for v, c in enumerate([2, 0, 1, 1, 0])}))
(saint / "role.json").write_text(json.dumps({"tr": [0, 1, 2], "va": [3], "te": [4]}))

tables = {"raw/edge": [[0, 1], [2, 1], [3, 4]], "raw/node-feat": [[0.25, -1.5], [1e-5, 2], [3, 4], [5, 6], [7, 8]],
          "raw/node-label": [[1], [0], [2], [1], [0]], "raw/num-node-list": [[5]], "raw/num-edge-list": [[3]],
          "split/time/train": [[0], [2]], "split/time/valid": [[1]], "split/time/test": [[3], [4]]}
for name, rows in tables.items():
    file = here / f"ogb/{name}.csv.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(file, header=False, index=False, compression={"method": "gzip", "mtime": 1})
