"""Models of a few kilobytes with a real tokenizer, in which words of like meaning have like vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SIZE = 16
MEANINGS = (
    ("delete", "remove", "erase"),
    ("file", "document"),
    ("send", "deliver"),
    ("message", "mail"),
    ("query:",),
    ("text:",),
)
"""Words of one line have almost the same vector."""
PAD, UNKNOWN = "[PAD]", "[UNK]"


def words() -> list[str]:
    return [PAD, UNKNOWN, *(word for line in MEANINGS for word in line)]


def table() -> Any:
    """One row for each of :func:`words`."""
    import numpy as np

    rows = np.zeros((len(words()), SIZE), dtype=np.float32)
    for number, line in enumerate(MEANINGS):
        for place, word in enumerate(line):
            rows[words().index(word), number] = 1.0
            rows[words().index(word), SIZE - 1 - place] = 0.1
    rows[1, SIZE - 1] = 0.01
    return rows


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words())}, unk_token=UNKNOWN))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def onnx_model(folder: Path, *, pooled: bool = False, broken: bool = False) -> Path:
    """A folder as published: an embedding of each token, the mean of which is the text's; ``pooled`` is that mean."""
    from onnx import TensorProto, helper, numpy_helper, save

    (folder / "onnx").mkdir(parents=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    configs = {
        "config.json": {"pad_token_id": 0},
        "special_tokens_map.json": {"pad_token": PAD, "unk_token": UNKNOWN},
        "tokenizer_config.json": {"model_max_length": 64, "pad_token": PAD},
        "config_sentence_transformers.json": {"prompts": {"query": "query: ", "document": "text: "}},
    }
    for name, content in configs.items():
        (folder / name).write_text(json.dumps(content))
    if not pooled:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    weights = table()
    if broken:
        weights[:] = float("nan")
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
    shape: list[Any] = ["batch", "length", SIZE]
    if pooled:
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
            helper.make_node("Mul", ["tokens", "wide"], ["kept"]),
            helper.make_node("ReduceMean", ["kept", "middle"], ["sentence_embedding"], keepdims=0),
        ]
        shape = ["batch", SIZE]
    output = nodes[-1].output[0]
    ids = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "l"]) for n in ("input_ids", "attention_mask")]
    constants = [numpy_helper.from_array(weights, "table")]
    if pooled:
        import numpy as np

        constants += [numpy_helper.from_array(np.array([-1]), "last"), numpy_helper.from_array(np.array([1]), "middle")]
    given = ids if pooled else ids[:1]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "tiny", given, outputs, constants)
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "onnx/model.onnx"
    )
    return folder


def static_model(folder: Path) -> Path:
    """The same for sentence-transformers: the mean of rows of a table, saved by the library itself."""
    from sentence_transformers import SentenceTransformer

    try:
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    except ImportError:
        from sentence_transformers.models import StaticEmbedding
    module = StaticEmbedding(tokenizer(), embedding_weights=table())
    prompts = {"query": "query: ", "document": "text: "}
    SentenceTransformer(modules=[module], device="cpu", prompts=prompts).save(str(folder), create_model_card=False)
    return folder
