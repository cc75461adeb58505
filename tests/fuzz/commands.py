"""Command lines that work, of every command, and values for their options that may not."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import click

LIVE = "--model scripted/0.7 --max-calls 200 --store sqlite:///new.db --display none"
PAIR = "--model scripted/0.8 --model scripted/0.5 --max-calls 200 --store sqlite:///new.db --display none"
SERVED = "--base-url http://127.0.0.1:PORT/v1 --max-calls 40 --store sqlite:///new.db --display none --eps 0.2 -j 4"
KEPT = "--store sqlite:///store.db"

SCENES: tuple[tuple[float, str], ...] = (
    (3, "replay scores.csv --model red --eps 0.15"),
    (
        2,
        "replay scores.csv --model green --items items.jsonl --history others --eps 0.15 --mix sums=2,gains=1",
    ),
    (1, "replay scores.parquet --model blue --at-least 0.5 --method active --weights weights.csv"),
    (1, "replay questions.csv --model level --history others"),
    (2, "replay compare scores.csv --model red --model blue --eps 0.1"),
    (
        1,
        "replay compare scores.parquet --model red --model blue --within 0.2 --history others --items items.jsonl",
    ),
    (2, "replay rank scores.csv --tie 0.1"),
    (1, "replay rank scores.parquet --top 2"),
    (2, "replay tasks scores.csv --model green --items items.jsonl --eps 0.2 --history others"),
    (1, "replay tasks north.csv south.csv --model blue --which-fail 0.5"),
    (2, "replay extend scores.csv --model red --versions 20,30,40 --eps 0.2"),
    (
        1,
        "extend scores.csv --model blue --items items.jsonl --eps 0.2 --store sqlite:///new.db --display none",
    ),
    (2, "plan --items 500 --eps 0.05"),
    (1, "plan --items questions.jsonl --weights weight --mean 0.7 --threshold 0.6"),
    (1, "plan --items questions.parquet --mix sums=1,gains=2 --groups 0.5:0.2,0.5:0.1"),
    (4, f"run questions.jsonl {LIVE} --eps 0.2"),
    (2, f"run questions.csv {LIVE} --eps 0.2 --weights weight"),
    (2, f"run questions.tsv {LIVE} --at-least 0.5 --template @template.txt"),
    (2, f"run questions.parquet {LIVE} --eps 0.2 --mix gains=1,sums=2"),
    (2, f"run questions.rows.json {LIVE} --eps 0.2 --few-shot 2 --system @template.txt"),
    (4, "run task.yaml --max-calls 100 --store sqlite:///new.db --display none"),
    (2, f"run questions.jsonl --config task.yaml {LIVE} --dry-run"),
    (
        2,
        "run questions.jsonl --model python:golden_models:flaky --eps 0.2 -j 3 --store sqlite:///new.db --display none",
    ),
    (
        1,
        f"run questions.jsonl {LIVE} --scorer grade --judge python:golden_models:steady --judge-template @judge.txt",
    ),
    (1, f"gate questions.jsonl {LIVE} --min 0.5"),
    (4, f"run questions.jsonl --model openai/m {SERVED}"),
    (1, f"run questions.jsonl --model openai/m {SERVED} --price-in 1 --price-out 1"),
    (
        1,
        f"run questions.jsonl --model openai/m {SERVED} --scorer grade --judge openai/j --samples 2 --temperature 1",
    ),
    (1, f"compare questions.jsonl --model openai/m --model openai/n {SERVED}"),
    (2, f"compare questions.jsonl {PAIR} --eps 0.2"),
    (
        2,
        "compare questions.jsonl good brief --candidates candidates.yaml --store sqlite:///new.db --display none",
    ),
    (
        1,
        "rank questions.jsonl --candidates candidates.yaml --tie 0.4 --store sqlite:///new.db --display none",
    ),
    (
        2,
        "compare questions.jsonl --model scripted/0.8 --system a --system @template.txt --set top_p=0.9 "
        "--store sqlite:///new.db --display none",
    ),
    (2, f"rank questions.jsonl {PAIR} --tie 0.3"),
    (2, f"tasks questions.jsonl {LIVE} --eps 0.3"),
    (1, f"tasks north.jsonl south.jsonl {LIVE} --each-eps 0.4"),
    (2, f"extend questions.jsonl {LIVE} --eps 0.3"),
    (2, f"extend RUN:growing --data more.jsonl {KEPT} --display none"),
    (1, "seal run questions.jsonl --model scripted/0.7 --eps 0.2 --store sqlite:///new.db -o new.seal.json"),
    (1, "seal compare questions.jsonl --model scripted/0.7 --model scripted/0.2 --store sqlite:///new.db"),
    (3, f"run questions.jsonl --model scripted/0.6 --eps 0.2 --seal plan.seal.json {KEPT} --display none"),
    (4, f"resume RUN:begun {KEPT} --max-calls 60 --display none"),
    (2, f"resume RUN:estimate {KEPT} --eps 0.15 --display none"),
    (2, f"runs {KEPT} --since 7d --model s"),
    (2, f"show RUN:estimate {KEPT} --wrong"),
    (1, f"show RUN:compare {KEPT} --contains What -n 3"),
    (1, f"export RUN:estimate {KEPT} -o answers.csv"),
    (1, f"export --all {KEPT} -o answers.parquet"),
    (2, f"ask RUN:outside {KEPT} -n 5 -o batch-new.jsonl"),
    (4, f"tell RUN:outside batch.jsonl {KEPT} --display none"),
    (1, f"tell RUN:outside batch.csv {KEPT} --display none"),
    (2, f"rescore RUN:estimate --scorer contains {KEPT} --display none"),
    (1, f"trend questions.jsonl {KEPT}"),
    (1, f"delete RUN:rank {KEPT} --yes"),
    (4, f"report RUN:ANY {KEPT} -o page.html"),
    (1, f"judge RUN:ANY {KEPT} --mark 0.6"),
    (14, "verify CERTIFICATE"),
    (3, f"verify RUN.json {KEPT}"),
    (4, f"verify sealed.json --seal plan.seal.json {KEPT}"),
    (0.5, "verify certified.eval"),
    (1, "seal run questions.jsonl --model scripted/0.6 --eps 0.2 --sign key.pem --store sqlite:///new.db"),
    (2, f"verify sealed.json --seal plan.seal.json --public-key key.pub {KEPT}"),
    (1, f"export RUN:ANY {KEPT} --format every-eval-ever -o results.json"),
    (1, f"export RUN:ANY {KEPT} --format hf --dataset org/name -o results.yaml"),
    (1, f"export RUN:ANY {KEPT} --format markdown"),
    (6, "import LOG LOG -o imported.csv --items-output imported.items.csv"),
    (3, "fleet fleet.yaml --plan --store sqlite:///new.db"),
    (0.5, "fleet fleet.yaml --store sqlite:///new.db --display none"),
    (2, f"view {KEPT} --no-browser"),
    (0.2, "example new-folder"),
    (0.1, "reproduce hubness --quick --replications 1 --jobs 1"),
)
"""Weight and command line. RUN:NAME: the id of a run in the workshop's store; CERTIFICATE: one of the golden ones or
of the workshop's; RUN.json: one of the workshop's that its store knows; LOG: a log of another tool;
PORT: that of a server that answers badly."""

LOGS: Mapping[str, str] = {
    "log.eval": "data/sums.eval",
    "inspect.json": "data/sums.json",
    "samples_sums.jsonl": "data/lm_eval/dummy/samples_sums_*.jsonl",
    "helm": "others/helm-0.5/picks",
    "promptfoo.json": "others/promptfoo-0.121/out.json",
    "promptfoo.jsonl": "others/promptfoo-0.121/out.jsonl",
    "details_old.parquet": "others/lighteval-0.6/details/*/*/*/details_*sums*.parquet",
    "details_new.parquet": "others/lighteval-0.13/details/*/*/*/details_*sums*.parquet",
    "annotations.json": "others/alpaca_eval-0.6/annotations.json",
}
"""Logs by their names in the workshop, with where they are in `tests/integrations/logs`."""

KINDS = ("estimate", "compare", "rank", "tasks", "growing")

AMOUNTS_OF_WORK = frozenset({"replications", "jobs", "dimensions"})
"""Options of experiments whose large values are honest requests for hours of work."""

PATHS = (
    "",
    ".",
    "/",
    "missing.csv",
    "missing/",
    "questions.jsonl",
    "scores.csv",
    "fifo",
    "/dev/zero",
    "/dev/null",
    "/dev/full",
    "/proc/self/mem",
    "x" * 300,
    "x" * 5000,
    "\udcff.csv",
    "a\nb.jsonl",
    "questions.jsonl/x",
    "~/x.jsonl",
    "hf:",
    "hf:none/none",
    "file:///etc/passwd",
    "-",
)
WORDS = (
    "",
    " ",
    "x",
    "\udc80",
    "\x1b[31m",
    "a" * 20_000,
    "{{",
    "{{ question }}",
    "@missing.txt",
    "@template.txt",
    "@",
    "--",
    "'",
    ",",
    "=",
    ":",
    "a=b=c",
    "nan",
    "0",
    "-1",
    "red",
    "others",
    "store",
    "category",
    "item",
    "sums=nan",
    "sums=1e308,gains=1e308",
    "sums=-1",
    "sums=0,gains=0",
    "level=1",
    "1,2,3",
    "0.2,0.1,1",
    "inf,1",
    "9" * 400,
    "1e309,1",
    "0.5:0.5",
    "0.5:nan,0.5:1",
    "7d",
    "1e30d",
    "-3h",
    "99999999999d",
    "0000-00-00",
    "9999-12-31",
    "2026-11-01T00:00:00+99:00",
)
NUMBERS = (
    "0",
    "1",
    "-1",
    "0.5",
    "1e-300",
    "-0.0",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "2",
    "",
    "x",
    "٣",
    "1_000",
    "0x1",
    "95",
    "9" * 400,
)
WHOLE = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "1000000000",
    str(2**63),
    str(10**30),
    "9" * 5000,
    "1.5",
    "",
    "x",
    "nan",
    "٣",
)
OF_OPTION: Mapping[str, Sequence[str]] = {
    "model": (
        "scripted/0.5",
        "scripted/nan",
        "scripted/",
        "scripted/2",
        "scripted/1e-9",
        "python:golden_models:steady",
        "python:golden_models:nothing",
        "python:golden_models",
        "python:",
        "python:a b:c",
        "python:golden_models.x:f",
        "python:./golden_models.py:steady",
        "gguf:missing.gguf",
        "gguf:scores.csv",
        "local/none",
        "external/people",
        "openai/none",
        "openai/",
        "red",
        "blue",
        "item",
        "none",
    ),
    "temperature": ("none", "None", "0", "2", "3", "nan", "x"),
    "request": (
        "top_p=0.9",
        "a",
        "=",
        "=1",
        "a={",
        "a=[1]",
        "model=x",
        "messages=[]",
        "temperature=2",
        "\udc80=1",
    ),
    "name": ("a", "", "a" * 5000, "\x1b[31m", "good"),
    "judge": ("python:golden_models:steady", "scripted/0.5", "openai/none", "x"),
    "scorer": (
        "exact",
        "contains",
        "choice",
        "numeric",
        "numeric:nan",
        "numeric:-1",
        "numeric:1e400",
        "math",
        "f1",
        "regex:(a+)+$",
        "regex:(",
        "regex:" + "(" * 3000,
        "regex:a{99999}{99999}",
        "regex:(?P<answer>.*)",
        "regex:" + "a?" * 3000 + "a" * 3000,
        "python:golden_models:steady",
        "python:nothing:here",
        "grade",
        "prefer",
        "exact:x",
        "",
        ":",
    ),
    "store": (
        "sqlite:///new.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:////",
        "sqlite:///missing/x.db",
        "sqlite:///scores.csv",
        "sqlite:///fifo",
        "sqlite:////dev/full",
        "sqlite:////dev/zero",
        "sqlite:///file:x?mode=memory",
        "store.db",
        "",
        "postgresql://127.0.0.1:9/x",
        "mysql://x",
        "://",
        "sqlite:///store.db?mode=ro",
        "sqlite:///\udcff.db",
        "x" * 5000,
    ),
    "base_url": (
        "http://127.0.0.1:9/v1",
        "",
        "x",
        "http://",
        "http://[::1",
        "ftp://127.0.0.1:9",
        "http://127.0.0.1:99999",
    ),
    "judge_base_url": ("http://127.0.0.1:9/v1", "x", ""),
    "method": (
        "auto",
        "uniform",
        "active",
        "partition",
        "static",
        "seq",
        "oracle",
        "hedged",
        "cer-eval",
        "x",
        "",
    ),
    "target": ("benchmark", "population", "expected", "weighted", "x"),
    "history": (
        "others",
        "none",
        "store",
        "red",
        "red,blue",
        "north.csv",
        "scores.csv",
        "missing.csv",
        "item",
        "",
        "fifo.csv",
    ),
    "embeddings": ("tfidf", "characters", "noise", "none", "wordllama", "x"),
    "embedder": ("tfidf", "characters", "noise", "none", "x"),
    "groups": ("category", "none", "0.5:0.2,0.5:0.1", "1:0", "0:0", "x", "1e400:1"),
    "certificate": ("new.json", "new/folder/c.json"),
    "report": ("new.html", "new/folder/r.html"),
    "output": ("new.out", "new.jsonl", "new.csv", "new.parquet", "new.xlsx", "new/folder/x.csv"),
    "out": ("reproduced",),
    "weights": ("weight", "weights.csv", "level", "question", "missing"),
    "by": ("version", "category", "level", "text", "item", "missing"),
    "sign": ("key.pem",),
    "public_key": ("key.pem",),
}
FILES = frozenset(
    {
        "certificate",
        "report",
        "output",
        "seal",
        "config",
        "items",
        "data",
        "weights",
        "mix",
        "sign",
        "public_key",
        "out",
        "history",
        "schema",
        "candidates_file",
    }
)


def argument(scene: str, rng: random.Random, changes: Sequence[int]) -> list[str]:
    """A command line with so many of its options changed, added or left out."""
    words = scene.split(" ")
    for _ in range(rng.choice(changes)):
        words = _changed(words, rng)
    if rng.random() < 0.4 and words[0] != "view":
        words.append("--json")
    return words


def command_of(words: Sequence[str]) -> click.Command | None:
    """The command that a line calls, groups gone through."""
    from cereval.cli.main import cli

    context = click.Context(cli)
    command: click.Command | None = cli
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(context, word)
    return command


def value_for(option: click.Parameter, rng: random.Random) -> str:
    """Draw a value for an option, by its name and type."""
    name = str(option.name)
    if name in AMOUNTS_OF_WORK:
        return rng.choice(("1", "0", "-1", "x", ""))
    kind = type(option.type).__name__
    chance = rng.random()
    if name in OF_OPTION and chance < 0.75:
        return rng.choice(OF_OPTION[name])
    if name in FILES and chance < 0.95:
        return rng.choice(PATHS)
    if "Int" in kind and chance < 0.95:
        return rng.choice(WHOLE)
    if "Float" in kind and chance < 0.95:
        return rng.choice(NUMBERS)
    if isinstance(option.type, click.Choice) and chance < 0.8:
        return str(rng.choice(list(option.type.choices)))
    return rng.choice(WORDS)


def _changed(words: list[str], rng: random.Random) -> list[str]:
    words = list(words)
    kind, command = rng.random(), command_of(words)
    if command is None or kind < 0.03:
        place = rng.randrange(len(words) + 1)
        words[place:place] = [rng.choice((*WORDS, *PATHS, "--help", "--nothing", "-h", "--version"))]
        return words
    options = {spelt: one for one in command.params if isinstance(one, click.Option) for spelt in one.opts}
    used = [place for place, word in enumerate(words[:-1]) if word in options and not options[word].is_flag]
    arguments = [place for place, word in enumerate(words) if "." in word and words[place - 1] not in options]
    if kind < 0.35 and used:
        place = rng.choice(used)
        words[place + 1] = value_for(options[words[place]], rng)
    elif kind < 0.45 and used and words[0] != "reproduce":
        place = rng.choice(used)
        del words[place : place + 2]
    elif kind < 0.55 and arguments:
        words[rng.choice(arguments)] = rng.choice(PATHS)
    elif options:
        words += _option(*rng.choice(list(options.items())), rng)
    return words


def _option(spelt: str, option: Any, rng: random.Random) -> list[str]:
    if option.is_flag:
        return [rng.choice((spelt, *option.secondary_opts))]
    return [spelt, value_for(option, rng)]
