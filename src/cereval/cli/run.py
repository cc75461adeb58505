"""Commands that ask: `run`, `gate`, `compare`, `rank`, `tasks` and `extend`, each from questions to a certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from cereval.cli.options import ASKING, CONFIG, DRY_RUN, ITEMS, OUTPUT, SEAL, apply, names_a_run, take
from cereval.errors import InvalidInput
from cereval.settings import (
    AgainOptions,
    CompareOptions,
    ExtendOptions,
    FieldOptions,
    GateOptions,
    RankOptions,
    RunOptions,
    TasksOptions,
)

YAML = (".yaml", ".yml")


def question(
    accepted: type, *arguments: Callable[..., Any], several: bool = False
) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command that asks, with a flag for every option of its kind. several: of several candidates."""
    options = (
        *arguments,
        apply(ASKING),
        take(accepted, several=several),
        apply(ITEMS, CONFIG, DRY_RUN, SEAL, OUTPUT),
    )

    def command(function: Callable[..., int]) -> click.Command:
        return click.command()(apply(options)(click.pass_context(function)))

    return command


def data_and_names(data: str | None = None, names: str = "[NAME]") -> tuple[Callable[..., Any], ...]:
    return (
        click.argument("data", required=False, metavar=data),
        click.argument("names", nargs=-1, metavar=names),
    )


def _listed(data: str | None) -> tuple[str, ...]:
    return () if data is None else (data,)


@question(RunOptions, *data_and_names())
def run(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Evaluate a model on DATA with as few calls as a certified answer takes.

    DATA is a JSONL, CSV or Parquet file, hf:org/name[:config][@split], or a task file (YAML) with the same settings as
    the flags. NAME is a candidate of --candidates. A repeated command goes on where it ended: no answer is paid for
    twice.

    DATA may also be recorded scores: a table (`item` and one column per model, named with --model) or a log of another
    tool. Then no model is asked, and all scores are used (`replay` says how many would have been enough).

    Exit codes: 0 goal reached or certified pass, 1 could not run, 2 certified fail, 3 undecided.
    """
    from cereval.cli.carry_out import answer_question

    return answer_question("estimate", _listed(data), flags, context, names=names)


@question(GateOptions, *data_and_names())
def gate(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Let a model pass only if its mean score on DATA is certainly at least C; takes the flags of `run`.

    A gate tests what is served now: it uses no stored answers, unless --reuse or --max-age allows them.

    Exit codes: 0 certified pass, 1 could not run, 2 certified fail, 3 undecided (the budget is spent).
    """
    from cereval.cli.carry_out import answer_question

    in_file = flags["config"] is not None or str(data).endswith(YAML)
    if flags["min"] is flags["each_at_least"] is None and not in_file:
        raise InvalidInput("--min", "given: the mean score to reach", None)
    fresh = flags["max_age"] is None or None
    return answer_question("estimate", _listed(data), flags, context, names=names, fresh=fresh)


@question(CompareOptions, *data_and_names("DATA|SCORES|RUN", "[NAME NAME|RUN]"), several=True)
def compare(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Compare two candidates on the same items, from as few of them as a certified answer takes.

    DATA is a question file or a task file, as for `run`, and the two are asked. A candidate is a model with its prompt
    and settings: an option that is given once is for both, given twice the first is the first candidate's and the
    second the second's (`--model m --system @a.txt --system @b.txt`). Or both are NAMEs of --candidates. Or SCORES is a
    table of recorded scores (`item` and one column per model), or two logs of other tools; two RUNs are compared on
    the questions that both answered. There nobody is asked and all answers are used. A repeated command, or
    `cereval resume RUN`, goes on where it ended.

    The answer is `first`, `second`, or `no-difference` larger than --tie: whichever is certain first. It holds,
    together with the interval of the difference, with the stated confidence whenever you stop.

    Exit codes: 0 decided or goal reached, 1 could not run, 2 certified worse (--not-worse), 3 undecided.
    """
    from cereval.cli.carry_out import answer_question

    return answer_question("compare", _listed(data), flags, context, names=names, candidates=2)


@question(RankOptions, *data_and_names("DATA|SCORES", "[NAME]..."), several=True)
def rank(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Rank many candidates on the same items, from as few calls as a certified order takes.

    DATA is a question file or a task file, as for `run`, and the candidates are asked: options of candidates are given
    once for all of them, or once for each. A repeated command, also one with more candidates or another goal, asks
    nothing twice. Or SCORES is a table of recorded scores (`item` and one column per model), or
    logs of other tools, or RUNs are ranked on the questions that all of them answered: there nobody is asked and all
    scores are used.

    Calls go to the candidates and items that still matter: one whose place is settled is asked no more. Every
    [better, worse] pair in `order` is certified, all of them and every interval at once, whenever you stop.
    Each certificate holds by itself, for a goal and candidates fixed before looking: several rankings of the same
    answers do not share one confidence.

    Exit codes: 0 goal reached, 1 could not run, 3 undecided.
    """
    from cereval.cli.carry_out import answer_question

    return answer_question("rank", _listed(data), flags, context, names=names, candidates=None)


@question(
    TasksOptions,
    click.argument("files", nargs=-1, metavar="[DATA|SCORES]..."),
    click.option(
        "--data", multiple=True, metavar="DATA", help="A question file, the same as DATA; may be repeated."
    ),
)
def tasks(context: click.Context, /, files: tuple[str, ...], data: tuple[str, ...], **flags: Any) -> int:
    """Evaluate one candidate on many tasks: the macro mean, every task, or a threshold for all of them.

    DATA is a question file or a task file, as for `run`, and the candidate is asked: the categories (--by) of one file
    are the tasks, or each of several files is one. Or SCORES is a table of recorded scores (`item` and one column per
    model): with --items each category is a task; of several SCORES files each is one. There nobody
    is asked and all scores are used. A repeated command, or
    `cereval resume RUN`, goes on where it ended.

    Draws go where they help the goal most, and what is learnt in one task helps to forecast the next. All intervals
    and decisions hold at once with the stated confidence.

    Exit codes: 0 goal reached or all pass, 1 could not run, 2 some task certainly fails, 3 undecided.
    """
    from cereval.cli.carry_out import answer_question

    sources = data or files
    if files and data:
        raise InvalidInput("DATA", "given as arguments or with --data, and not both", ", ".join(data))
    if not sources and flags["config"] is None:
        raise InvalidInput("DATA or SCORES", "given", None)
    for name in ("by", "category", "items"):
        if flags[name] is not None and len(sources) > 1:
            raise InvalidInput(f"--{name}", "left out where each of several files is a task", flags[name])
    if flags["by"] is not None and flags["category"] is not None:
        raise InvalidInput("--category", "left out where --by names the task", flags["category"])
    return answer_question("tasks", sources, flags, context)


# -- data that grow ----------------------------------------------------------------------------------------------------

ELSEWHERE = ("trust", "store", "certificate", "report", "as_json", "display", "name", "tags", "data")


@click.command()
@click.argument("source", required=False, metavar="[DATA|RUN|SCORES]")
@click.option(
    "--data",
    metavar="DATA",
    help="A question file for the candidate to be asked: the first version, or with RUN the items that are new.",
)
@apply(ASKING)
@take(ExtendOptions)
@apply(ITEMS, SEAL, OUTPUT)
@click.pass_context
def extend(context: click.Context, /, source: str | None, data: str | None, **flags: Any) -> int:
    """Evaluate a candidate on data that grow: what each version takes, and what is proven of it.

    Earlier certificates stay valid, and all versions hold at once with the stated confidence. Only new items are
    asked; what was learnt before is kept.

    DATA is a question file, as for `run`, and the candidate is asked: each version is a run in the store. `cereval
    extend RUN --data DATA` adds the items of DATA that RUN does not have, as a new run, with the candidate and the goal
    of RUN. A repeated command, or `cereval resume RUN`, goes on where it ended.

    SCORES is a table of recorded scores, whose column --model answers; then DATA of the later versions is one too
    (`replay extend`: what would all versions have taken?).

    New items may be chosen by somebody who knows every result but not the seed: do not show them a certificate, a
    page, the store, or a seed that was printed.

    Exit codes: 0 goal reached, 1 could not run, 3 the last version is not certified within eps.
    """
    from cereval.cli.carry_out import answer_question

    if source is None and data is None:
        raise InvalidInput("DATA or SCORES", "given", None)
    if data is None and names_a_run(str(source)):
        raise InvalidInput("--data", "given with RUN: a question file with the items that are new", None)
    file = data or str(source)
    if file.endswith(YAML):
        raise InvalidInput("DATA", "questions (jsonl, csv, parquet, hf:org/name), not a task file", file)
    if data is not None and source is not None:
        return _add_version(source, data, context, flags)
    return answer_question("growing", (file,), flags, context)


def _add_version(run_id: str, data: str, context: click.Context, flags: Mapping[str, Any]) -> int:
    from cereval.cli.carry_out import finish
    from cereval.cli.recorded import read_recorded
    from cereval.models.scripted import RECORDED
    from cereval.runner.resume import extend_run, new_items
    from cereval.store.base import opened_store

    _refuse_settings(context, flags)
    # Lock the version before: two extensions at once would share draws, and what one shows foretells the other.
    with opened_store(flags["store"]) as store, store.hold(store.run(run_id).run_id):
        given = {
            name: one[0] if isinstance(one, tuple) and one else one or None for name, one in flags.items()
        }
        model = str(store.run(run_id).plan["candidates"][0]["model"])
        columns = [model.removeprefix(RECORDED)] if model.startswith(RECORDED) else []
        recorded = read_recorded((data,), columns, flags).data if columns else None
        added, overrides = new_items(data, given, recorded)
        work = extend_run(run_id, store, added, overrides, trust=bool(flags["trust"]))
        labels = [*flags["name"], *(flags["tags"] or ())]
        return finish(work, work.plan, store, flags, labels=labels)


def _refuse_settings(context: click.Context, flags: Mapping[str, Any]) -> None:
    """Refuse flags that decide answers and bets: they are the same in all versions."""
    changeable = (*AgainOptions.__annotations__, *FieldOptions.__annotations__, *ELSEWHERE)
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in changeable and flags.get(name) not in (None, (), False):
            wanted = "left out for a new version of RUN, which has it"
            raise InvalidInput(parameter.opts[-1], wanted, flags[name])
