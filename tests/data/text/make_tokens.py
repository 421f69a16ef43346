#!/usr/bin/env python3
"""Token ids of Hugging Face's tokenizers library (0.23), which tests/data/tokenizer.cpp compares with.

    make_tokens.py tokens.json            the reference file of the project, from a small vocabulary
    make_tokens.py --lines N FOLDER       N lines of mixed Unicode to FOLDER/lines.txt, a tokenizer of FOLDER/vocab.txt to
                                          FOLDER/tokenizer.json, and their ids to FOLDER/ids.txt
"""
import json
import random
import string
import sys
import unicodedata

from tokenizers import BertWordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the of a film movie story is not good bad play work run unbeliev great love it and to in naive cafe".split()
PIECES = "##able ##ing ##ed ##s ##er ##ly ##e ##a ##n ##t ##1 ##2 ##0 ##i ##o".split()
LETTERS = list(string.ascii_lowercase) + list(string.digits) + list(string.punctuation)
OTHERS = ["é", "ü", "ß", "ø", "α", "σ", "ς", "я", "и", "中", "文", "国", "語", "ᄀ", "##ᅡ", "##ᆨ", "ı", "ł", "##ø", "Film", "É", "–", "…", "“", "¿"]
VOCABULARY = SPECIAL + WORDS + PIECES + LETTERS + OTHERS


def mixed_lines(count, words, seed=7):
    """Words, Unicode of every kind that was there in version 3.2, special tokens, accents, punctuation, long words."""
    draw = random.Random(seed)
    old = unicodedata.ucd_3_2_0
    kinds = {c: old.category(chr(c)) for c in range(1, 0x110000)}
    every = [chr(c) for c, kind in kinds.items() if kind not in ("Cn", "Cs", "Co") and c not in (10, 13)]
    every = [c for c in every if c not in "\u1885\u1886"]  # their category has changed since
    every += [chr(c) for c in (0xFFFD, 0xE000, 0x85, 0xA0, 0x3000, 0x2028, 0x200B, 0xAD, 0x130, 0x2B820, 0x2B920)]
    every += [chr(c) for c in range(0x1F300, 0x1F650)]
    ideographs = [c for c in every if 0x4E00 <= ord(c) <= 0x9FFF]
    others = [c for c in every if not 0x3400 <= ord(c) < 0xD7B0]
    run = lambda pool, most: "".join(draw.choice(pool) for _ in range(draw.randint(1, most)))

    def part():
        kind = draw.random()
        if kind < 0.40:
            word = draw.choice(words)
            return draw.choice([word, word, word.title(), word.upper()])
        if kind < 0.50:
            return run(every, 6)
        if kind < 0.60:
            return run(others, 6)
        if kind < 0.65:
            return run(ideographs, 5)
        if kind < 0.72:
            word, mark = draw.choice(words), draw.choice("\u0301\u0308\u0327\u030a")
            at = draw.randint(0, len(word))
            return word[:at] + mark + word[at:]
        if kind < 0.78:
            return run("àéîõüçñßÅØłžİıǅΣςАЯёЖΩ가각힣ạ中文", 8)
        if kind < 0.84:
            return draw.choice(["[MASK]", "[CLS]", "x[SEP]y", "[unk]", "[UNK]a", "[PAD]", "[mask]"])
        if kind < 0.90:
            return run(string.punctuation, 4)
        if kind < 0.95:
            return str(draw.randint(0, 10 ** draw.randint(1, 9)))
        return draw.choice("abcd") * draw.choice([99, 100, 101, 5])

    return [draw.choice([" ", "  ", "\t", "\u00a0"]).join(part() for _ in range(draw.randint(0, 12))) for _ in range(count)]


def tokenizer(vocabulary, lowercase):
    made = BertWordPieceTokenizer({token: i for i, token in enumerate(vocabulary)}, lowercase=lowercase)
    made.add_special_tokens(SPECIAL)
    return made


def main(arguments):
    if arguments[0] == "--lines":
        count, folder = int(arguments[1]), arguments[2]
        vocabulary = open(f"{folder}/vocab.txt", encoding="utf-8", newline="\n").read().rstrip("\n").split("\n")
        lines = mixed_lines(count, [token for token in vocabulary if token.isalpha()] or WORDS)
        made = tokenizer(vocabulary, True)
        made.save(f"{folder}/tokenizer.json")
        with open(f"{folder}/lines.txt", "w", encoding="utf-8", newline="\n") as out:
            out.writelines(line + "\n" for line in lines)
        with open(f"{folder}/ids.txt", "w", encoding="utf-8") as out:
            out.writelines(" ".join(map(str, made.encode(line).ids)) + "\n" for line in lines)
        return
    cases = []
    cased, uncased = tokenizer(VOCABULARY, False), tokenizer(VOCABULARY, True)
    for line in mixed_lines(150, WORDS + ["unbelievable", "playing", "worked", "naïve", "café", "films"], 3):
        cases.append({"text": line, "uncased": uncased.encode(line).ids, "cased": cased.encode(line).ids})
    pairs = []
    for first, second, longest in [(12, 8, 13), (5, 30, 20), (11, 10, 12), (3, 3, 6), (20, 4, 10), (4, 5, 30), (0, 6, 5), (7, 7, 3)]:
        uncased.enable_truncation(longest)
        a, b = "a " * first, "b " * second
        pair = uncased.encode(a, b)
        pairs.append({"first": a, "second": b, "longest": longest, "ids": pair.ids, "types": pair.type_ids})
        uncased.no_truncation()
    reference = {"vocabulary": VOCABULARY, "cases": cases, "pairs": pairs, "tokenizer": json.loads(uncased.to_str())}
    with open(arguments[0], "w", encoding="utf-8") as out:
        json.dump(reference, out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
