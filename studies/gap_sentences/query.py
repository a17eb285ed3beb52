"""Documents of several texts, sentence by sentence, before which stands a query; an encoder that scores sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.datasets.text.gap_sentences import sentences
from sciops.datasets.text.summaries import Summarised
from sciops.mixers.sequence.diagonal_kernel import DiagonalKernel
from sciops.models.sequences.stack import SequenceStack
from studies.gap_sentences.data import Corpus
from studies.gap_sentences.training import Sizes, encoder_options, stacked

SENTENCES = 3  # of every text in a document, and those that are chosen
_SHOWN = 2  # sentences of the queried text in its query, after its summary
_LONGEST = {"summary": 24, "sentence": 32}  # tokens; the rest is cut off
_SHORTEST = 6  # tokens of a sentence; shorter ones are left out
_NO_GATE, _SHORT_KERNEL = "state_space_no_gate", "state_space_short_kernel"
ABLATIONS = (_NO_GATE, _SHORT_KERNEL)
REACH = 4.0  # tokens in which the modes of the short kernel fall by e, at least


@dataclass(frozen=True)
class Piece:
    """query : tokens of the summary and of the first two sentences of a text; sentences : those of the three that
    follow; said : these three as text, cut off as the tokens are; group : of which module or source package"""

    query: np.ndarray
    sentences: tuple[np.ndarray, ...]
    said: tuple[str, ...]
    group: str


@dataclass(frozen=True)
class Document:
    """tokens (n,), the query first; place (n,): the sentence that a token is of, −1 in the query; own (sentences,):
    which are of the queried text; said : the sentences as text"""

    tokens: np.ndarray
    place: np.ndarray
    own: np.ndarray
    said: tuple[str, ...]


def pieces(corpus: Corpus, texts: Sequence[Summarised]) -> list[Piece]:
    """Of all texts with at least five sentences of six tokens."""
    found = []
    for text in texts:
        parts = [np.array(corpus.tokenizer.encode(s)) for s in sentences(text.text)]
        parts = [p[: _LONGEST["sentence"]] for p in parts if len(p) >= _SHORTEST]
        if len(parts) >= _SHOWN + SENTENCES:
            summary = np.array(corpus.tokenizer.encode(text.summary))[: _LONGEST["summary"]]
            query = np.concatenate([summary, *parts[:_SHOWN]]).astype(np.int64)
            body = tuple(parts[_SHOWN : _SHOWN + SENTENCES])
            said = tuple(corpus.tokenizer.decode([int(t) for t in p]).strip() for p in body)
            found.append(Piece(query, body, said, text.group))
    return found


def document(known: Sequence[Piece], i: int, count: int, each: int, random: np.random.Generator) -> Document:
    """The first `each` sentences of text i and of count − 1 drawn texts of other groups, in a drawn order that leaves
    each text its own order; before them the query of text i.

    Raises ValueError where there are fewer texts of other groups.
    """
    chosen, others = [i], random.permutation(len(known))
    for j in others:
        if len(chosen) == count:
            break
        if known[j].group != known[i].group:
            chosen.append(int(j))
    if len(chosen) < count:
        raise ValueError(f"{count} texts a document: only {len(chosen)} are of different groups; pass fewer")
    order = random.permutation(np.repeat(np.arange(count), each))
    seen = [0] * count
    tokens, place, said = [known[i].query], [np.full(len(known[i].query), -1)], []
    for p, text in enumerate(order):
        part, at = known[chosen[text]], seen[text]
        seen[text] += 1
        tokens.append(part.sentences[at])
        place.append(np.full(len(part.sentences[at]), p))
        said.append(part.said[at])
    return Document(np.concatenate(tokens), np.concatenate(place), order == 0, tuple(said))


def word_vectors(corpus: Corpus, known: Sequence[Piece], size: int) -> np.ndarray:
    """(symbols, size) vectors of tokens: latent semantic analysis of the training texts, which all encoders share.

    V·diag(idf) of the truncated singular value decomposition U S Vᵀ of the matrix of texts by tokens, rows of unit
    length with the entries (1 + ln count)·idf (Deerwester et al. 1990); then centred and of unit variance over the
    tokens of `known`, since a token of a sentence should not weigh by how frequent it is in all texts.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import svds

    texts = [corpus.tokenizer.encode(f"{t.summary} {t.text}")[:400] for t in corpus.other["train"]]
    rows = np.repeat(np.arange(len(texts)), [len(t) for t in texts])
    columns = np.concatenate([np.asarray(t, dtype=np.int64) for t in texts])
    counts = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(texts), corpus.symbols))
    counts.sum_duplicates()
    inverse = np.log((len(texts) + 1) / (np.asarray((counts > 0).sum(0)).ravel() + 1))
    counts.data = 1 + np.log(counts.data)
    weighted = counts.multiply(inverse).tocsr()
    norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(1)))
    unit = weighted.multiply(1 / np.maximum(norms, 1e-9)).tocsr()
    _, _, right = svds(unit, k=min(size, min(unit.shape) - 1), random_state=0)
    vectors = np.zeros((corpus.symbols, size))
    vectors[:, : len(right)] = right.T * inverse[:, None]
    every = np.concatenate([np.concatenate([piece.query, *piece.sentences]) for piece in known])
    share = np.bincount(every, minlength=corpus.symbols)[:, None] / len(every)
    vectors = vectors - (share * vectors).sum(0)
    return vectors / np.maximum(np.sqrt((share * vectors**2).sum(0)), 1e-9)


class ShortKernel(DiagonalKernel):
    """`DiagonalKernel` with modes that fall by e within `REACH` tokens at least: Re ΔA ≤ −1/REACH, as many weights."""

    def discretised(self, axis: int, *, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
        rates, now, before = super().discretised(axis, scale=scale, dtype=dtype)
        return torch.complex(rates.real.clamp(max=-1 / REACH), rates.imag), now, before


def encoder_of(name: str, sizes: Sizes) -> SequenceStack:
    """An encoder of the study, or one of the `ABLATIONS`: a state space whose gate is off, or whose kernel is short."""
    mixer = "state_space" if name in ABLATIONS else name
    options = encoder_options(mixer, sizes) | ({"gate": False} if name == _NO_GATE else {})
    made = SequenceStack(sizes.width, sizes.depth, mixer=mixer, mixer_options=options)
    if name == _SHORT_KERNEL:
        for block in made.blocks:
            block.mixer.kernel = ShortKernel(
                sizes.width, sizes.state // 2, directions=2, axes=1, dt_min=1e-3, dt_max=0.1, hold="zero"
            )
    return made


class QueryExtractor(nn.Module):
    """score_s = mean_{i ∈ s} (2γ⟨o_i, e_i⟩/√d + w·h_i + b) of the sentences s, with o_i = W h_i + c.

    h = encoder(A e_i + r_i): e_i is the fixed vector of token i, (d,), and r one of two learned vectors, of tokens of
    the query and of all others. o_i is what the encoder expects at token i, and the product says how well the token
    meets it, as tied logits of a language model do. An encoder whose tokens do not read each other knows nothing of the
    query at i. A and r start at a twentieth of the usual size, so that what a mixer adds to a token is not small
    beside the token.

    auxiliary loss : mean_i |o_i − 2q|² / mean |2q|², q the mean of e over the query: every token of the document is to
    name the query. It trains what a choice needs of distant tokens without a plateau.
    """

    def __init__(self, vectors: np.ndarray, encoder: str, sizes: Sizes) -> None:
        super().__init__()
        size = vectors.shape[1]
        self.vectors: Tensor
        self.register_buffer("vectors", torch.tensor(vectors, dtype=torch.float32))
        self.into, self.role = nn.Linear(size, sizes.width, bias=False), nn.Embedding(2, sizes.width)
        with torch.no_grad():
            for weight in (self.into.weight, self.role.weight):
                weight.mul_(0.05)
        self.encoder = encoder_of(encoder, sizes)
        self.out, self.score = nn.Linear(sizes.width, size), nn.Linear(sizes.width, 1)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)
        self.gain = nn.Parameter(torch.tensor(1.0))

    def forward(self, tokens: Tensor, mask: Tensor, place: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """(batch, most) scores, and the auxiliary loss; place (batch, n): −1 in the query, anything at padding."""
        e = self.vectors[tokens]
        asks = (place < 0) & mask
        h = self.encoder(self.into(e) + self.role(asks.long()), mask)
        o = self.out(h)
        body = mask & ~asks
        each = 2 * self.gain * (o * e).sum(-1) / e.shape[-1] ** 0.5 + self.score(h).squeeze(-1)
        at = torch.where(body, place, most)
        shape = len(tokens), most + 1
        total, count = (each.new_zeros(shape).scatter_add(1, at, z) for z in (each, body.to(each.dtype)))
        q = 2 * (e * asks.unsqueeze(-1)).sum(1) / asks.sum(1, keepdim=True).clamp(min=1)
        missed = ((o - q.unsqueeze(1)).square() * body.unsqueeze(-1)).sum() / (body.sum() * e.shape[-1])
        return total[:, :most] / count[:, :most].clamp(min=1), missed / q.square().mean()


def batch_of(documents: Sequence[Document], device: str) -> tuple[tuple[Tensor, Tensor, Tensor, int], Tensor]:
    """What `QueryExtractor` takes, and which sentences are of the queried text, of documents of as many sentences."""
    tokens, mask = stacked([d.tokens for d in documents], device)
    place = torch.zeros(mask.shape, dtype=torch.int64)
    for i, d in enumerate(documents):
        place[i, : len(d.place)] = torch.from_numpy(d.place)
    own = torch.from_numpy(np.stack([d.own for d in documents])).to(device)
    return (tokens, mask, place.to(device), len(documents[0].own)), own


def scores_of(model: nn.Module, documents: Sequence[Document], device: str) -> np.ndarray:
    """(documents, sentences) scores, without dropout or gradients."""
    model.eval()
    with torch.no_grad():
        parts = [
            model(*batch_of(documents[i : i + 16], device)[0])[0].cpu().numpy() for i in range(0, len(documents), 16)
        ]
    model.train()
    return np.concatenate(parts)


def nearest(vectors: np.ndarray, documents: Sequence[Document]) -> np.ndarray:
    """(documents, sentences) cosines of the mean vectors of a sentence and of the query: a choice without training."""

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / max(1e-12, np.linalg.norm(a) * np.linalg.norm(b)))

    found = []
    for d in documents:
        means: Any = [vectors[d.tokens[d.place == p]].mean(0) for p in range(-1, len(d.own))]
        found.append([cosine(means[0], mean) for mean in means[1:]])
    return np.array(found)
