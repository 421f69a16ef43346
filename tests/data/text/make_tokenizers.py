#!/usr/bin/env python3
"""Small tokenizers of every kind, trained with Hugging Face's tokenizers library (0.23), and what it makes of texts.

    make_tokenizers.py tokenizers.json    the reference file of the project: tests/data/tokenizers.cpp compares with it
    make_tokenizers.py --lines N FOLDER   of each kind FOLDER/KIND/tokenizer.json, and of N lines of mixed Unicode the
                                          ids, a line each, in FOLDER/KIND/ids.txt; the lines are in FOLDER/lines.txt
"""
import base64
import json
import os
import struct
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_tokens import WORDS, mixed_lines

TEXT = """The quick brown fox jumps over the lazy dog. A fine film, and they've said it's not a bad story!
I'll go, you'd stay; we're 12 people in 2024, 3.14 and 1,000,000. HELLO World, don't stop. ¿Qué tal, señor?
Straße, café, naïve, résumé, Ωmega, Привет мир, 日本語の文字, 한국어, العربية, हिन्दी, ไทย.
def f(x):
    return x + 1  # a comment

\tindent, and   runs   of spaces.""".split("\n") * 3

L = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
W = L.replace(r"\p{N}{1,3}", r"\p{N}")
LOWER, UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
T = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*"
     r"|\s*[\r\n]+|\s+(?!\S)|\s+")
B = " ?[^(\\s|[.,!?…。，、।۔،])]+"
CASES = [
    "", " ", "   ", "\n\n", " \n x", "a", " a", "  a  b   c", "Hello, world!", "they've I'M HE'LL it’s", "'ſ x'ſy", "don't 'Sound' s'",
    "0 12 123 1234567 3.14", "½ ² ① Ⅷ ٣٤", "café cafe\u0301 Å Å ﬁ ｆｕｌｌ", "e\u0323\u0307 q\u0307\u0323 각 \u1100\u1161\u11a8",
    "日本語の文字。한국어", "مرحبا، हिन्दी । ไทย", "a\u00a0b\u3000c\u180ed\u200be\u2028f\u0085g", "\u0000\u0001\u007f\ufffd\ufeff", "🤗👩‍👩‍👧 🇩🇪é̂",
    "<s>a</s> <mask> b<pad>", "x <|end|>\n y", "<|endoftext|>a <|endoftext|>", "[INST] hi [/INST]", "▁a ▁▁b", "<0x0A><0xFF>", "if x:\n        y(1)\n\t\tz", "…!!! (a|b) [c].",
    "wordwordword" * 3, "\r\n\r\n  \r", "İIıß ẞ ǅ",
    "a  \U00011de6 \U00016ff4  \U0001ccf0", "½\u0897x ½\u1add é\u1ae0",  # of Unicode 16 and 17
]
PAIRS = [["Hello", "world"], ["", " x"], ["a b", "<s>"]]


def charsmap(rules):
    """A table of sentencepiece: a double-array trie of Darts-clone over UTF-8, then the replacements."""
    texts, root = b"", {}
    for source, target in rules.items():
        node = root
        for byte in source.encode():
            node = node.setdefault(byte, {})
        node[0] = len(texts)
        texts += target.encode() + b"\0"
    units = {0: 0}

    def place(at, node):
        base = next(b for b in range(1, 1 << 20) if all(b ^ label not in units for label in node))
        units[at] |= (at ^ base) << 10
        for label in node:
            units[base ^ label] = label
        for label, child in node.items():
            if label == 0:
                units[at] |= 1 << 8
                units[base] = child | 1 << 31
            else:
                place(base ^ label, child)

    place(0, root)
    array = b"".join(struct.pack("<I", units.get(i, 0)) for i in range((max(units) | 255) + 1))
    return base64.b64encode(struct.pack("<I", len(array)) + array + texts).decode()


CHARSMAP = {"\u0001": "", "\t": " ", "\n": " ", "\u00a0": " ", "\u3000": " ", "ﬁ": "fi", "①": "1", "e\u0301": "é", "Å": "Å", "\r\n": " ", "½": "1⁄2"}


def train(model, trainer, normalizer=None, pre=None):
    made = Tokenizer(model)
    if normalizer:
        made.normalizer = normalizer
    if pre:
        made.pre_tokenizer = pre
    made.train_from_iterator(TEXT, trainer)
    return made


def byte_level(pre, size=300, normalizer=None, special=(), **options):
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(special), show_progress=False)
    made = train(models.BPE(**options), trainer, normalizer, pre)
    made.decoder = decoders.ByteLevel()
    return made


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def sentencepiece(normalizer=None, pre=None, special=("<unk>", "<s>", "</s>")):
    trainer = trainers.BpeTrainer(vocab_size=340, limit_alphabet=40, special_tokens=[*special, *BYTES], show_progress=False)
    made = train(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), trainer, normalizer, pre)
    data = json.loads(made.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] in special]
    made = Tokenizer.from_str(json.dumps(data))
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    made.post_processor = template(made, ["<s>"])
    return made


def template(made, before=(), after=(), separate=None):
    around = lambda text, kind: " ".join([*(f"{b}:{kind}" for b in before), f"{text}:{kind}", *(f"{a}:{kind}" for a in after)])
    pair = separate or around("$A", 0) + " " + around("$B", 1)
    return processors.TemplateProcessing(single=around("$A", 0), pair=pair, special_tokens=[(t, made.token_to_id(t)) for t in {*before, *after}])


def unigram(normalizer, special, size, byte_fallback=False):
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False)
    made = train(models.Unigram(), trainer, normalizer, pre_tokenizers.Metaspace())
    data = json.loads(made.to_str())
    if byte_fallback:
        lowest = min(score for _, score in data["model"]["vocab"])
        data["model"]["vocab"] += [[byte, lowest - 1] for byte in BYTES]
    data["model"]["byte_fallback"] = byte_fallback
    return Tokenizer.from_str(json.dumps(data))


def kinds():
    G = lambda: pre_tokenizers.ByteLevel(add_prefix_space=False)
    end = "<|endoftext|>"
    made = byte_level(G())
    made.add_tokens([AddedToken(end, special=True, normalized=True)])
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    old = json.loads(made.to_str())  # merges as texts, no flag of newer versions
    old["model"]["merges"] = [" ".join(pair) for pair in old["model"]["merges"]]
    del old["model"]["ignore_merges"]
    yield "gpt2", old
    made = byte_level(G(), normalizer=normalizers.NFC(), special=[end])
    made.add_tokens([AddedToken(" " * count, normalized=True) for count in range(8, 1, -1)])
    yield "gpt_neox", made
    made = byte_level(split(L), ignore_merges=True, special=["<s>", "</s>"])
    made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template(made, ["<s>"])])
    yield "llama3", made
    yield "qwen", byte_level(split(W), normalizer=normalizers.NFC(), special=[end])
    yield "tekken", byte_level(split(T), ignore_merges=True)
    yield "bloom", byte_level(split(B))
    steps = [pre_tokenizers.Punctuation("contiguous"), G(), pre_tokenizers.Digits(False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]
    yield "falcon", byte_level(pre_tokenizers.Sequence(steps))
    yield "smollm", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), G()]))
    made = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), special=["<s>", "<pad>", "</s>", "<unk>"])
    made.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    yield "roberta", made
    steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=580, initial_alphabet=alphabet, end_of_word_suffix="</w>", special_tokens=[a + "</w>" for a in sorted(alphabet)], show_progress=False)
    data = json.loads(train(models.BPE(end_of_word_suffix="</w>", continuing_subword_prefix=""), trainer, normalizers.Sequence(steps), pre).to_str())
    data["added_tokens"] = []
    made = Tokenizer.from_str(json.dumps(data))
    made.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.BPEDecoder()])
    yield "clip", made
    legacy = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    yield "llama2", sentencepiece(legacy)
    yield "mistral", sentencepiece(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), ("<unk>", "<s>", "</s>", "[INST]", "[/INST]"))
    made = sentencepiece(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"))
    made.add_tokens([AddedToken("\n" * count, normalized=False) for count in (3, 2)] + [AddedToken("▁" * count, normalized=False) for count in (4, 3, 2)])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    yield "gemma", made
    made = sentencepiece(legacy)
    made.add_special_tokens([AddedToken(token, rstrip=True, normalized=False) for token in ("<|end|>", "<|user|>")])
    made.add_tokens([AddedToken("dog", single_word=True, lstrip=True, normalized=False)])
    yield "phi3", made
    steps = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    made = unigram(normalizers.Sequence(steps), ["<pad>", "</s>", "<unk>"], 200)
    made.decoder = decoders.Metaspace()
    made.post_processor = template(made, after=["</s>"], separate="$A:0 </s>:0 $B:0 </s>:0")
    yield "t5", made
    steps = [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]
    made = unigram(normalizers.Sequence(steps), ["<pad>", "<unk>", "[CLS]", "[SEP]"], 150)
    made.decoder = decoders.Metaspace()
    made.post_processor = template(made, ["[CLS]"], ["[SEP]"], "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")
    yield "albert", made
    made = unigram(normalizers.Precompiled(base64.b64decode(charsmap(CHARSMAP))), ["<s>", "<pad>", "</s>", "<unk>"], 200, True)
    made.decoder = decoders.Metaspace()
    made.post_processor = template(made, ["<s>"], ["</s>"], "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0")
    yield "xlm_roberta", made


def byte_spans(text, offsets):
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    return [at[offset] for pair in offsets for offset in pair]


def main(arguments):
    made = [(name, one, Tokenizer.from_str(json.dumps(one) if isinstance(one, dict) else one.to_str())) for name, one in kinds()]
    data = lambda one: one if isinstance(one, dict) else json.loads(one.to_str())
    if arguments[0] == "--lines":
        count, folder = int(arguments[1]), arguments[2]
        lines = mixed_lines(count, WORDS, 11)
        with open(f"{folder}/lines.txt", "w", encoding="utf-8", newline="\n") as out:
            out.writelines(line + "\n" for line in lines)
        for name, one, tokenizer in made:
            os.makedirs(f"{folder}/{name}")
            with open(f"{folder}/{name}/tokenizer.json", "w", encoding="utf-8") as out:
                json.dump(data(one), out, ensure_ascii=False)
            with open(f"{folder}/{name}/ids.txt", "w", encoding="utf-8") as out:
                out.writelines(" ".join(map(str, tokenizer.encode(line).ids)) + "\n" for line in lines)
        return
    with open(arguments[0], "w", encoding="utf-8", newline="\n") as out:
        out.write('{"texts":' + json.dumps(CASES) + ',\n"pairs":' + json.dumps(PAIRS) + ',\n"tokenizers":{\n')
        for number, (name, one, tokenizer) in enumerate(made):
            cases = []
            for text in CASES:
                plain, whole = tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)
                cases.append({"plain": plain.ids, "spans": byte_spans(text, plain.offsets), "ids": whole.ids,
                              "decoded": tokenizer.decode(plain.ids, skip_special_tokens=False), "skipped": tokenizer.decode(whole.ids)})
            pairs = [tokenizer.encode(*pair) for pair in PAIRS]
            value = {"file": data(one), "cases": cases, "pairs": [{"ids": pair.ids, "types": pair.type_ids} for pair in pairs]}
            out.write(("" if number == 0 else ",\n") + json.dumps(name) + ":" + json.dumps(value, separators=(",", ":")))
        out.write("\n}}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
