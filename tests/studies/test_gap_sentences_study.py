"""The study of gap sentences on a made-up corpus: what it keeps and counts, and that its parts do what they say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sciops.datasets.text.summaries import Summarised, split_summaries
from studies import gap_sentences as study
from studies.gap_sentences import data, extraction, query, querying, training
from studies.gap_sentences.report import summary

CONFIG = study.Config(
    symbols=270,
    source_length=60,
    target_length=12,
    held_out=6,
    few=(4,),
    arms=training.ARMS,
    width=8,
    depth=1,
    state=4,
    heads=2,
    batch=4,
    tuning=(0.02, 0.2),
    pretraining=4,
    steps=2,
    checks=2,
    seeds=(0, 1),
    lengths=(8, 16),
    rounds=1,
    choosers=("sparse_attention", "none"),
    choosing_steps=2,
    window=4,
)


@pytest.fixture
def config(tmp_path):
    pytest.importorskip("tokenizers")
    random = np.random.default_rng(0)

    def sentence():
        return " ".join(f"w{k}" for k in random.integers(40, size=5)).capitalize() + "."

    pairs = [
        {"text": " ".join(sentence() for _ in range(6)), "summary": f"about w{i} and {i}", "group": f"g{i}"}
        for i in range(60)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return replace(CONFIG, output=tmp_path)


@pytest.fixture
def corpus(config):
    path = config.output / "pairs.jsonl"
    return data.corpus_of(path, 270, 60, 12, ratio=0.3, kept=0.0, held_out=6)


def sizes(**changes):
    return training.Sizes(**({name: getattr(CONFIG, name) for name in training.Sizes.__annotations__} | changes))


def test_a_small_run_keeps_what_it_did(config, capsys, monkeypatch):
    monkeypatch.setattr("studies.gap_sentences.cost.peak_memory", lambda *call: 1000 + call[2])
    results = study.run(config)
    assert [row["length"] for row in results["costs"]] == [8, 16]
    chosen = {row["encoder"]: row for row in results["choosing summary"]}
    assert set(chosen) == {"sparse_attention", "none"} and len(chosen["none"]["rouge 3"]) == 2
    assert chosen["none"]["against"]["lead-1"]["winner"] == "too few seeds"
    assert results["costs"][0]["bytes"] == {"state_space": 1008, "self_attention": 1008}
    assert {(row["arm"], row["few"]) for row in results["summary"]} == {(arm, 4) for arm in training.ARMS}
    for run in results["runs"]:
        for entry in run["fine"]:
            assert str(entry["rate"]) in ("0.02", "0.2") and len(entry["validation by rate"]) == 2
            assert entry["validation"] == min(entry["validation by rate"].values())
            if run["spec"]["arm"] == training.PRETRAINED:  # fine-tuning starts where pre-training ended
                start = run["pretraining"]["curve"][-1]["validation"]
                assert entry["curve"][0]["validation"] == pytest.approx(start, abs=1e-6)
    for name in ("learning", "rouge", "choosing", "costs"):
        assert (config.output / "figures" / f"{name}.png").stat().st_size > 10_000
    bibliography = (config.output / "citations.bib").read_text()
    assert all(key in bibliography for key in ("zhang2020pegasus", "lebronnec2024locost", "raffel2020exploring"))
    said = capsys.readouterr().out
    assert "against from scratch, longer: better seeds (verdict) ROUGE-1" in said and "baseline: first sentence" in said
    monkeypatch.setattr(study, "train_once", lambda *call: pytest.fail("trained again"))
    monkeypatch.setattr(study, "costs", lambda *call, **how: pytest.fail("measured again"))
    monkeypatch.setattr(study, "draw", lambda *call: None)
    assert study.run(config)["summary"] == results["summary"]


def test_choosing_alone_needs_no_writing(config, capsys):
    results = study.run(replace(config, parts=("choosing",), choosers=("none",), seeds=(0,)))
    assert results["runs"] == [] and "none, one sentence" in capsys.readouterr().out
    assert (config.output / "figures" / "choosing.png").exists()
    with pytest.raises(ValueError, match="1000 is the seed of the trials"):
        study.run(replace(config, parts=("choosing",), seeds=(1000,)))


def test_gaps_come_from_training_texts_alone(config, corpus):
    lines = (config.output / "pairs.jsonl").read_text().splitlines()
    split = split_summaries([Summarised(**json.loads(line)) for line in lines])
    training_text = "\n".join(pair.text for pair in split.train)
    assert not {pair.text for pair in corpus.texts} & {pair.text for pair in split.train}
    assert len(corpus.gaps) > 40
    for source, target in corpus.gaps:
        written = corpus.written(target)
        assert target[-1] == corpus.tokenizer.end and len(target) <= 12 and written in training_text
        assert corpus.mask in source and len(source) <= 60
        assert corpus.written([t for t in source if t != corpus.mask])[:12] in training_text
        assert written not in corpus.written(source)  # with kept=0, what is asked for is not there
    assert corpus.symbols == corpus.mask + 1 and corpus.mask == corpus.start + 1


def test_best_weights_are_kept(corpus):
    torch.manual_seed(0)
    model = training.model_of(corpus.symbols, corpus.start, corpus.tokenizer.end, "state_space", sizes())
    record = training.fit(
        model,
        corpus.train,
        corpus.validation,
        steps=12,
        seed=0,
        sizes=sizes(rate=30.0, checks=6),
        device="cpu",
        best=True,
    )
    losses = [point["validation"] for point in record["curve"]]
    now = training.loss_on(model, corpus.validation, 4, "cpu")
    assert now == pytest.approx(min(losses), rel=1e-5) and now < losses[-1]
    assert record["curve"][losses.index(min(losses))]["step"] == record["best"]


def test_the_loss_is_the_mean_over_tokens_without_padding(corpus):
    model = training.model_of(corpus.symbols, corpus.start, corpus.tokenizer.end, "self_attention", sizes()).eval()
    total = tokens = 0
    for source, target in corpus.test:
        y = torch.from_numpy(target)[None]
        log_p = model(torch.from_numpy(source)[None], model.shifted(y)).log_softmax(-1).detach()
        total -= float(log_p.gather(-1, y[..., None]).sum())
        tokens += len(target)
    assert training.loss_on(model, corpus.test, 2, "cpu") == pytest.approx(total / tokens, rel=1e-5)


def test_summaries_come_back_in_the_order_of_the_texts(corpus, monkeypatch):
    model = training.model_of(corpus.symbols, corpus.start, corpus.tokenizer.end, "state_space", sizes())

    class Echo:
        def __init__(self, tokens):
            self.tokens = tokens

    monkeypatch.setattr(type(model), "generate", lambda self, source, **how: Echo(source[:, : how["tokens"]]))
    said = training.summarise(model, corpus, sizes(batch=1, target_length=3), "cpu")
    assert said == [corpus.written(source[:3]) for source, _ in corpus.test] and len(set(said)) > 3


def test_every_pair_is_drawn_once_an_epoch(corpus):
    pairs = corpus.gaps[:32]
    drawn = [i for rows in training.drawn(pairs, 16, 4, 0) for i in rows]
    assert sorted(drawn) == sorted([*range(32)] * 2)
    assert drawn != [i for rows in training.drawn(pairs, 16, 4, 1) for i in rows]


def test_encoders_have_about_equal_parameters():
    made = [
        training.model_of(500, 498, 0, name, sizes(width=64, state=16, heads=4, depth=2))
        for name in ("state_space", "self_attention")
    ]
    counts = [sum(p.numel() for p in model.encoder.parameters()) for model in made]
    assert counts[0] == pytest.approx(counts[1], rel=0.01)


def test_counts_of_seeds_notice_which_arm_is_better():
    def run(arm, seed, score, loss):
        entry = {"few": 5, "rouge": [score, score, score, score], "validation": loss, "test_loss": loss}
        return {
            "spec": {"encoder": "e", "arm": arm, "seed": seed},
            "fine": [entry | {"seconds": 1.0, "rate": 0.1}],
        }

    ours = [run(training.PRETRAINED, 0, 0.3, 2.0), run(training.PRETRAINED, 1, 0.1, 2.0)]
    theirs = [run(training.SCRATCH, 0, 0.2, 1.0), run(training.SCRATCH, 1, 0.2, 3.0), run(training.SCRATCH, 2, 0, 9.0)]
    rows = {row["arm"]: row for row in summary([*ours, *theirs])}
    beaten = rows[training.SCRATCH]["beaten by pre-training"]
    assert {**beaten, "verdict": None} == {"rouge": [1, 1, 1], "validation": 1, "of": 2, "verdict": None}
    assert beaten["verdict"]["validation"] == "too few seeds"
    many = [run(arm, s, score, 2.0) for arm, score in ((training.PRETRAINED, 0.3), (training.SCRATCH, 0.2))
            for s in range(5)]  # fmt: skip
    verdict = next(row for row in summary(many) if row["arm"] == training.SCRATCH)["beaten by pre-training"]["verdict"]
    assert verdict == {"rouge": ["better"] * 3, "validation": "equivalent"}
    assert "beaten by pre-training" not in rows[training.PRETRAINED]


def test_a_folder_keeps_the_sources_it_has_read(tmp_path, monkeypatch):
    pair = Summarised("A text. Of two sentences.", "a text", "g")
    monkeypatch.setattr(data, "docstrings", lambda packages: [pair._replace(group=name) for name in packages][:1])
    path = data.pairs_of(("python",), tmp_path / "pairs.jsonl")
    before = path.read_text()
    assert data.pairs_of(("python",), path).read_text() == before
    with pytest.raises(ValueError, match="is of python, not of numpy: pass another --output"):
        data.pairs_of(("numpy",), path)
    sizes, options = (270, 60, 12), dict(ratio=0.3, kept=0.0, held_out=6)
    path.write_text(before.replace("sentences", "sentence"))
    with pytest.raises(ValueError, match="pairs.jsonl changed since it was written"):
        data.pairs_of(("python",), path)
    note = path.with_suffix(".sources.json")
    note.write_text('["python"]')  # of before there was a digest
    assert data.pairs_of(("python",), path) == path
    for text in ("[" * 5000, "{}", '{"sources": 3}', "3"):
        note.write_text(text)
        with pytest.raises(ValueError, match="pairs.sources.json "):
            data.pairs_of(("python",), path)
    for line in ('{"text": "a"}', "[1]", "{", "[" * 5000):
        path.write_text(line)
        with pytest.raises(ValueError, match="pairs.jsonl") as caught:
            data.corpus_of(path, *sizes, **options)
        assert "\n" not in str(caught.value)


def test_refusals(config):
    for changes, message in (
        ({"arms": ("x",)}, "--arms x: expected some of 'gap sentences'"),
        ({"encoders": ("window",)}, "--encoders window"),
        ({"few": ()}, "at least one of each"),
        ({"few": (4, 999)}, r"--few 999: there are \d+ summaries"),
    ):
        with pytest.raises(ValueError, match=message):
            study.run(replace(config, **changes))


def test_what_is_chosen_is_scored_as_rouge_scores_it(corpus):
    rouge_score = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = rouge_score.RougeScorer(["rouge1"])
    given = extraction.examples(corpus, corpus.texts, 60)
    for example, text in zip(given, corpus.texts):
        assert len(example.tokens) == len(example.place) <= 60
        for sentence, gain in zip(example.said, example.gains):
            assert gain == pytest.approx(scorer.score(text.summary, sentence)["rouge1"].fmeasure)
    simple = extraction.baselines(corpus, 60)
    assert simple["lead-1"][0] == pytest.approx(np.mean(simple["gains"]))
    assert simple["oracle-1"][0] == pytest.approx(np.mean([max(e.gains) for e in given]))
    assert simple["random-1"][0] <= simple["oracle-1"][0] and simple["lead-1"][0] <= simple["oracle-1"][0]


def test_a_score_is_the_mean_over_its_sentence_and_padding_takes_no_part(corpus):
    torch.manual_seed(0)
    model = extraction.Extractor(corpus.symbols, "none", sizes()).double().eval()
    torch.nn.init.normal_(model.places)
    given = extraction.examples(corpus, corpus.texts, 60)[:3]
    given[1] = extraction.Example(given[1].tokens[:20], given[1].place[:20], given[1].gains, given[1].said)
    with torch.no_grad():
        scores = extraction.scored(model, given)
        each = [model.encoder(model.embedding(torch.from_numpy(e.tokens))[None])[0] for e in given]
    for row, example, h in zip(scores, given, each):
        for s, value in enumerate(row):
            own = h[torch.from_numpy(example.place == s)]
            if len(own):
                expected = own.mean(0) @ model.score.weight[0].detach() + model.places[min(s, 7)].detach()
                assert float(value) == pytest.approx(float(expected), abs=1e-12)
            else:
                assert value == -torch.inf


def query_parts(corpus, count=3):
    """Pieces of the training texts, each cut into two sentences more, and documents of them."""
    known = query.pieces(corpus, corpus.other["train"])
    random = np.random.default_rng(0)
    return known, [query.document(known, i, count, 3, random) for i in range(4)]


def test_a_document_holds_the_queried_text_and_others_in_their_order(corpus):
    known, documents = query_parts(corpus)
    for i, made in enumerate(documents):
        asked = known[i]
        assert made.own.sum() == 3 and len(made.own) == 9 == len(made.said)
        assert (made.tokens[made.place < 0] == asked.query).all() and (made.place[: len(asked.query)] < 0).all()
        own = np.flatnonzero(made.own)
        assert tuple(made.said[p] for p in own) == asked.said
        for p, part in zip(own, asked.sentences):
            assert (made.tokens[made.place == p] == part).all()
        assert not {made.said[p] for p in np.flatnonzero(~made.own)} & set(asked.said)
    judged = querying.judged(np.stack([d.own for d in documents]).astype(float), documents)
    assert judged["rouge"] == [1.0, 1.0, 1.0] and judged["right"] == [1.0] * 4
    with pytest.raises(ValueError, match="999 texts a document: only"):
        query.document(known, 0, 999, 3, np.random.default_rng(0))


@pytest.mark.parametrize("encoder", ["none", "state_space_short_kernel", "self_attention"])
def test_only_what_mixes_can_know_a_far_query(corpus, encoder):
    """Another query of the same length changes the scores of an encoder that reads it, and those near it alone where
    the kernel is short."""
    torch.manual_seed(0)
    known, documents = query_parts(corpus)
    vectors = query.word_vectors(corpus, known, 8)
    model = query.QueryExtractor(vectors, encoder, sizes(dropout=0.0)).double().eval()
    (tokens, mask, place, most), own = query.batch_of(documents[:1], "cpu")
    other = torch.where(place < 0, tokens.flip(1), tokens)
    with torch.no_grad():
        before, after = model(tokens, mask, place, most)[0], model(other, mask, place, most)[0]
        h = model.encoder(model.into(model.vectors[tokens]) + model.role((place < 0).long()), mask)
    changed = (before - after).abs()[0]
    if encoder == "none":
        assert changed.max() == 0
    elif encoder == "self_attention":
        assert changed.min() > 1e-9
    else:  # e^{−n/4} of the n tokens between, times a few
        assert changed[-1] < 1e-3 * changed[0]
    o, e = model.out(h), model.vectors[tokens]
    at = place[0] == 1
    each = 2 * model.gain * (o[0, at] * e[0, at]).sum(-1) / 8**0.5 + model.score(h)[0, at, 0]
    assert float(before[0, 1]) == pytest.approx(float(each.detach().mean()), abs=1e-12)


def test_padding_of_a_document_takes_no_part(corpus):
    known, documents = query_parts(corpus)
    lengths = [len(d.tokens) for d in documents]
    assert len(set(lengths)) > 1
    model = query.QueryExtractor(query.word_vectors(corpus, known, 8), "state_space", sizes()).double().eval()
    together = query.scores_of(model, documents, "cpu")
    alone = np.concatenate([query.scores_of(model, [d], "cpu") for d in documents])
    assert together == pytest.approx(alone, abs=1e-10)


def test_word_vectors_are_centred_and_of_unit_variance(corpus):
    known, _ = query_parts(corpus)
    vectors = query.word_vectors(corpus, known, 8)
    every = vectors[np.concatenate([np.concatenate([p.query, *p.sentences]) for p in known])]
    assert np.abs(every.mean(0)).max() < 1e-9 and every.std(0) == pytest.approx(np.ones(8), abs=1e-6)


def test_an_interval_of_a_ratio_holds_the_ratios_that_are_not_refused():
    from sciops.evaluation import paired_verdict

    random = np.random.default_rng(0)
    theirs = 0.6 + 0.2 * random.random((5, 80))
    own = 0.9 * theirs + 0.05 * random.standard_normal((5, 80))
    ratio, low, high = querying.ratio_interval(own, theirs)
    assert low < ratio < high and ratio == pytest.approx(own.mean() / theirs.mean())
    for end, inside in ((low, 1), (high, -1)):
        for shift, found in ((1e-6 * inside, False), (-1e-6 * inside, True)):
            one = paired_verdict(own, (end + shift) * theirs)
            assert (one.low > 0 or one.high < 0) == found
    assert querying.ratio_interval(own, theirs - 0.7) is None  # a denominator that may be 0
    assert querying.claim_of([0.95, 0.94, 0.96], 5) == "holds" and querying.claim_of([0.9, 0.89, 0.92], 5) != "holds"
    assert querying.claim_of([0.95, 0.92, 0.97], 5) == "undecided" and querying.claim_of(None, 4) == "too few seeds"


def test_queries_are_kept_and_answered(config, capsys):
    changes = {"parts": ("query",), "queriers": ("state_space", "sparse_attention", "none", *query.ABLATIONS[:1])}
    changes |= {"query_texts": (2, 3), "query_steps": (1, 1, 1), "query_batch": (2, 2, 1), "query_rates": (0.01, 0.02)}
    changes |= {"query_documents": (4, 5), "word_vectors": 8, "lengths": ()}
    results = study.run(replace(config, **changes))
    rows = results["query"]["summary"]
    assert {row["encoder"] for row in rows if row["length"] == "long"} == {"state_space", "sparse_attention", "none"}
    assert {row["encoder"] for row in rows if row["length"] == "short"} == set(changes["queriers"])
    for row in rows:
        tried = results["query"]["trials"][row["encoder"]]
        assert row["seeds"] == [0, 1] and tried[str(row["rate"])] == max(tried.values())
    said = capsys.readouterr().out
    assert (
        "query-focused extraction, long documents" in said and "state space against sparse attention: ROUGE-1" in said
    )
    assert (config.output / "figures" / "query.png").exists()
    with pytest.raises(ValueError, match="99 documents: only 6 held-out texts"):
        study.run(replace(config, **changes | {"query_documents": (99, 5)}))


def test_shares_of_copied_words():
    assert data.copied(["a b", "c"], ["B, a c", "d"]) == pytest.approx(2 / 3)
    assert np.isnan(data.copied([""], ["a"]))
