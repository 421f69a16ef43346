#!/usr/bin/env python3
"""A GPT-2 of 4 layers on a text of many short documents: PyTorch's side of a run of configs/language/gpt2_from_scratch.yaml.

    language_run.py prepare TEXTS VALIDATION FOLDER [--vocabulary 4096]
    language_run.py train FOLDER --epochs N [--rate 3e-4] [--warm-up 1] [--seed 1] [--threads 2]

TEXTS and VALIDATION have a document a line. `prepare` trains a byte-level BPE by the tokenizers crate, draws a GPT-2, and writes
both to FOLDER, with FOLDER/data/train.jsonl and FOLDER/data/validation.jsonl. `train` starts from the same weights and takes the
recipe's steps: whole documents packed in rows, each a sequence of its own with the end token behind it, AdamW with weight decay on
matrices, a cosine schedule with warm-up by epochs. Prints seconds, the loss by epoch, and the perplexity on VALIDATION.
"""
import argparse
import json
import math
import pathlib
import random
import time

import torch
import transformers

BATCH, LENGTH, DECAY = 16, 256, 0.1
END = "<|endoftext|>"


def prepare(a):
    import tokenizers

    folder = pathlib.Path(a.folder)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    documents = {name: [line for line in pathlib.Path(path).read_text().split("\n") if line]
                 for name, path in (("train", a.texts), ("validation", a.validation))}
    for name, lines in documents.items():
        (folder / f"data/{name}.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(documents["train"], vocab_size=a.vocabulary, special_tokens=[END], show_progress=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "tokenizer_class": "PreTrainedTokenizerFast"}))
    torch.manual_seed(1)
    end = tokenizer.token_to_id(END)
    transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=tokenizer.get_vocab_size(), n_positions=LENGTH, n_embd=256, n_layer=4, n_head=4, n_inner=1024, resid_pdrop=0,
        embd_pdrop=0, attn_pdrop=0, bos_token_id=end, eos_token_id=end)).save_pretrained(folder)


def packed(sequences, order):
    """Rows of LENGTH tokens, each with as many whole sequences as fit: lists of indices."""
    rows, room = [], []
    for index in order:
        fitting = [i for i in range(max(0, len(rows) - 64), len(rows)) if room[i] >= len(sequences[index])]
        if not fitting:
            rows.append([])
            room.append(LENGTH)
            fitting = [len(rows) - 1]
        row = min(fitting, key=lambda i: room[i])
        rows[row].append(index)
        room[row] -= len(sequences[index])
    return rows


def batch_of(sequences, rows):
    """Ids, labels, positions from 0 in each sequence, and a mask of what attends to what: the past of its own sequence."""
    ids, positions = torch.zeros(len(rows), LENGTH, dtype=torch.long), torch.zeros(len(rows), LENGTH, dtype=torch.long)
    labels, owner = torch.full((len(rows), LENGTH), -100), torch.full((len(rows), LENGTH), -1)
    for r, row in enumerate(rows):
        at = 0
        for index in row:
            tokens = torch.tensor(sequences[index])
            end = at + len(tokens)
            ids[r, at:end], positions[r, at:end], owner[r, at:end] = tokens, torch.arange(len(tokens)), index
            labels[r, at + 1:end] = tokens[1:]
            at = end
    mask = (owner[:, None, :, None] == owner[:, None, None, :]) & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    return dict(input_ids=ids, position_ids=positions, attention_mask=mask, labels=labels)


def train(a):
    import tokenizers

    torch.set_num_threads(a.threads)
    folder = pathlib.Path(a.folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    end = tokenizer.token_to_id(END)

    def sequences(name):
        return [(tokenizer.encode(json.loads(line)["text"]).ids + [end])[:LENGTH]
                for line in (folder / f"data/{name}.jsonl").read_text().splitlines()]

    samples, validation = sequences("train"), sequences("validation")
    model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=a.rate, fused=True)
    generator = random.Random(a.seed)
    held_out = packed(validation, range(len(validation)))

    def perplexity():
        model.eval()
        total = count = 0
        with torch.inference_mode():
            for first in range(0, len(held_out), BATCH):
                batch = batch_of(validation, held_out[first:first + BATCH])
                counted = int((batch["labels"] != -100).sum())
                total += model(**batch).loss.item() * counted
                count += counted
        return math.exp(total / count)

    begin = time.perf_counter()
    for epoch in range(a.epochs):
        model.train()
        order = list(range(len(samples)))
        generator.shuffle(order)
        rows = packed(samples, order)
        generator.shuffle(rows)
        losses = []
        for first in range(0, len(rows), BATCH):
            at = epoch + first / len(rows)
            rate = a.rate * (at / a.warm_up if at < a.warm_up else
                           0.5 * (1 + math.cos(math.pi * (at - a.warm_up) / (a.epochs - a.warm_up))))
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad(set_to_none=True)
            loss = model(**batch_of(samples, rows[first:first + BATCH])).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}, {time.perf_counter() - begin:.0f} s, perplexity "
              f"{perplexity():.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    preparing = commands.add_parser("prepare")
    for name in ("texts", "validation", "folder"):
        preparing.add_argument(name)
    preparing.add_argument("--vocabulary", type=int, default=4096)
    preparing.set_defaults(command=prepare)
    training = commands.add_parser("train")
    training.add_argument("folder")
    training.add_argument("--epochs", type=int, required=True)
    training.add_argument("--rate", type=float, default=3e-4)
    training.add_argument("--warm-up", type=float, default=1, help="epochs")
    training.add_argument("--seed", type=int, default=1, help="of the order")
    training.add_argument("--threads", type=int, default=2)
    training.set_defaults(command=train)
    a = parser.parse_args()
    a.command(a)


if __name__ == "__main__":
    main()
