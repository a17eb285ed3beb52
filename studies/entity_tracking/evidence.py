"""Parts whose arms are compared by verdicts: block forms and their reduced system, boxes, and language models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from studies.entity_tracking.arms import (
    TASKS,
    TEST_SEED,
    TUNING_SEED,
    Training,
    block_model,
    resolvent_model,
    shared_answers,
    softmax_model,
    summary,
    tuned,
)
from studies.kit.cells import kept
from studies.kit.text_training import text_data, train_language

OFF, OFF_OVERLAP = "tiles alone", "tiles, overlap"
ALONE = ("level 1", "level 2", OFF)  # forms without overlap, which do not follow near links: not trained on far ones
SMALL = 16  # sequences in a batch of pointers
CONTEXT, BATCH, SCORED = 64, 8, 10_000  # of the language models: tokens of a window, windows a step, tokens scored


def forms(width: int, m: int, *, overlap: bool = True) -> dict[str, dict[str, Any]]:
    """The block forms of m tokens, and what is left of them without the reduced system, by name."""
    made = {
        f"level {level}{', overlap' if over else ''}": block_model(width, level=level, block=m, overlap=over)
        for over in (False, True)[: 1 + overlap]
        for level in (1, 2)
    }
    # levels 1 and 2 differ in their reduced systems alone
    made[OFF] = block_model(width, level=1, block=m, reduced=False)
    made[OFF_OVERLAP] = block_model(width, level=1, block=m, overlap=True, reduced=False)
    return made


def blocks(config: Any, folder: Path) -> dict[str, Any]:
    """{"near", "far": rows of arms, "tries": rows of the forms without overlap, "bound": by tokens a block}."""
    results: dict[str, Any] = {"tries": [], "bound": {}}
    chosen: dict[str, float] = {}
    for kind, share in (("near", 0.0), ("far", config.long_links)):
        task = {"length": config.block_length, "chains": config.chains, "values": config.values, "local": config.local}
        task |= {"long_links": share} if share else {}
        rows = []
        for m in config.blocks:
            models = {"dense": resolvent_model(config.block_width)} | forms(config.block_width, m)
            for form, model in models.items():
                if (form == "dense" and m != config.blocks[0]) or (kind == "far" and form in ALONE):
                    continue
                name = form if form == "dense" else f"{form}, m = {m}"
                arm = Training(
                    f"{name}, {kind}", model, "pointers", task, config.block_steps, 0.0, config.tested, SMALL, block=m
                )
                rates = config.block_rates if kind == "near" else [chosen[name]]
                rows.append(_row(arm, rates, config, folder) | {"name": name, "form": form, "m": m})
                chosen[name] = rows[-1]["rate"]
                if kind == "near" and form == "level 1":
                    results["tries"] += _tries(replace(arm, rate=rows[-1]["rate"]), name, config, folder)
            if kind == "near":
                test = TASKS["pointers"](config.tested, seed=TEST_SEED, **task)
                results["bound"][str(m)] = shared_answers(test, m)
        results[kind] = rows
    return results


def _tries(arm: Training, name: str, config: Any, folder: Path) -> list[dict[str, Any]]:
    """Level 1 without overlap with more steps, an open gate, and eight summaries of a block, one a head."""
    heads = arm.model["mixer_options"] | {"heads": 8}
    variants = {
        f"{config.longer} times the steps": replace(arm, steps=config.longer * arm.steps),
        "8 heads": replace(arm, model=arm.model | {"mixer_options": heads}),
        "gate open at the start": replace(arm, gate=1.0),
    }
    rows = []
    for what, changed in variants.items():
        changed = replace(changed, name=f"{arm.name}, {what}")
        rows.append(_row(changed, [arm.rate], config, folder) | {"name": f"{name}: {what}"})
    return rows


def crossing(config: Any, folder: Path) -> dict[str, Any]:
    """{"rows": arms on chains whose links to other blocks go to their first tokens, "entries": the same with several}.

    With r entries, r first tokens of a block are pointed at: "entries" has rows of three arms for all tokens but one of
    a block, at the rates chosen for r = 1, and "bound" what one common answer a block allows (`shared_answers`), by r.
    """
    width, m = config.crossing_width, config.crossing_block
    task = {"blocks": config.crossing_blocks, "block": m, "values": config.values}
    models = {"dense": resolvent_model(width)} | forms(width, m, overlap=False)
    models["level 1, additive"] = block_model(width, level=1, block=m, combine="additive")
    rows, entries, bound = [], [], {}
    for form, model in models.items():
        arm = Training(f"{form}, crossing", model, "crossing", task, config.crossing_steps, 0.0, config.tested, SMALL)
        rows.append(_row(arm, config.block_rates, config, folder) | {"name": form, "form": form, "m": m, "entries": 1})
    for r in dict.fromkeys((1, m - 1)):
        several = task | {"entries": r}
        bound[str(r)] = shared_answers(TASKS["crossing"](config.tested, seed=TEST_SEED, **several), m)
        for row in rows if r > 1 else []:
            form = row["form"]
            if form not in ("dense", "level 1", "level 2"):
                continue
            name = f"{form}, {r} entries"
            arm = Training(name, models[form], "crossing", several, config.crossing_steps, 0.0, config.tested, SMALL)
            found = _row(arm, [row["rate"]], config, folder)
            entries.append(found | {"name": name, "form": form, "m": m, "entries": r})
    return {"rows": rows, "entries": entries, "bound": bound}


def boxes(config: Any, folder: Path) -> list[dict[str, Any]]:
    """Rows of arms on statements about boxes, with the exact match of every seed."""
    of_boxes, items = config.world
    task = {"length": config.statements, "boxes": of_boxes, "items": items}
    models = {
        "softmax, 1 layer": softmax_model(config.width, 1),
        "softmax, 2 layers": softmax_model(config.width, 2),
        **{
            f"resolvent, γ = {gamma:g}": resolvent_model(config.width, gamma=gamma) for gamma in config.statement_gammas
        },
    }
    rows = []
    for name, model in models.items():
        arm = Training(f"{name}, statements", model, "statements", task, config.statement_steps, 0.0, config.tested)
        rows.append(_row(arm, config.statement_rates, config, folder, "links") | {"name": name})
    return rows


def _row(arm: Training, rates: Any, config: Any, folder: Path, group: str = "hop") -> dict[str, Any]:
    arm, records, validated = tuned(arm, rates, range(config.arm_seeds), folder)
    row = summary(arm, records, group) | {"validated": validated, "mass": records[0].get("mass")}
    if "exact_match" in records[0]:
        row["exact"] = [record["exact_match"] for record in records]
    return row


def language(config: Any, folder: Path) -> dict[str, Any]:
    """{"corpus", "rows"}: nats a token on the test text of every seed, by mixer, the rate chosen on validation."""
    data = text_data(config.corpus, size=512, folder=folder)
    rows = []
    shape = {"width": config.language_width, "depth": 2, "local": 4}
    of_heads = {"heads": 4, "positions": "rope"}
    for name, mixer, options in (
        ("attention", "self_attention", of_heads),
        ("resolvent", "resolvent", of_heads),
        ("short convolutions alone", "none", {}),
    ):
        model = shape | {"mixer": mixer, "mixer_options": options}

        def record(rate: float, seed: int, name: str = name, model: dict[str, Any] = model) -> dict[str, Any]:
            how = {"context": CONTEXT, "steps": config.language_steps, "batch": BATCH, "rate": rate, "seed": seed}
            spec = {"text": data.checksum, "model": model, "scored": SCORED, **how}
            make = lambda: train_language(data, model, scored=SCORED, device="cpu", **how)[1]  # noqa: E731
            return kept(folder, f"language-{name}", spec, make)

        rates = config.language_rates
        validated = {f"{rate:g}": record(rate, TUNING_SEED)["validation"] for rate in rates if len(rates) > 1}
        best = min(rates, key=lambda rate: validated[f"{rate:g}"]) if validated else rates[0]
        records = [record(best, seed) for seed in range(config.arm_seeds)]
        rows.append(
            {
                "name": name,
                "rate": best,
                "validated": validated,
                "perplexities": [found["perplexity"] for found in records],
                "bits_per_byte": [found["bits_per_byte"] for found in records],
                "parameters": records[0]["parameters"],
                "steps": records[0]["steps"],
                "unigram_perplexity": records[0]["unigram_perplexity"],
            }
        )
    return {"corpus": data.name, "rows": rows}
