"""Scorers: from what the user says to what a plan keeps, and from there to something that scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from cereval.datasets.base import Item
from cereval.datasets.items import list_names
from cereval.datasets.prompts import Prompt
from cereval.errors import BadFile, CallError, InvalidInput
from cereval.files import read_json
from cereval.imports import name_of, optional
from cereval.models import ModelOptions, open_model
from cereval.models.base import Model
from cereval.models.base import Settings as RequestSettings
from cereval.models.scripted import RECORDED
from cereval.plan import Plan
from cereval.runner.candidates import Functions, address_of, call_options, functions_of, price_of, text_of
from cereval.runner.samples import Samples
from cereval.runner.trust import Named, named_by_model, named_by_scorer
from cereval.scorers import JUDGES, build_scorer, named
from cereval.scorers.base import Scorer, spec_of
from cereval.scorers.judge import Grade, Panel, Prefer
from cereval.scorers.people import People
from cereval.scorers.python_scorer import PythonScorer
from cereval.scorers.text import Recorded, Schema
from cereval.settings import Candidate, Settings

COMPARING = frozenset({"exact", "contains", "choice", "numeric", "math", "f1", "prefer"})
"""Scorers that need the right answer."""


def describe_scorer(settings: Settings, items: Sequence[Item]) -> dict[str, Any]:
    """Return the scorer as a plan keeps it: the one that was named, or the usual one for such questions."""
    if settings["scorer"] is None and len({bool(item.choices) for item in items}) > 1:
        raise InvalidInput("scorer", "given where some questions have choices and some have none", None)
    scorer = settings["scorer"] or _usual_scorer(settings, items)
    samples, code = samples_of(settings), {}
    if callable(scorer):
        own = PythonScorer(name_of(scorer), scorer)
        scorer, code = spec_of(own), {"code": own.code}
    if scorer == Schema.name:
        scorer = _answer_schema(settings.candidates)
    return {
        **code,
        "spec": _with_texts(scorer, settings["rubric"], settings["judge_template"], settings["raters"]),
        "judge": settings["judge"],
        "judge_base_url": settings["judge_base_url"],
        **samples.spec(),
    }


def _answer_schema(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Return the scorer of answers that are to fit the schema that the candidates are asked with."""
    files = {one.options.get("schema") for one in candidates}
    if len(files) != 1 or None in files:
        wanted = "given with --schema FILE, the same for all candidates, for the scorer `schema`"
        raise InvalidInput("schema", wanted, ", ".join(sorted(filter(None, files))) or None)
    return {"name": Schema.name, "schema": read_json(Path(files.pop() or ""))}


def functions_in(settings: Settings) -> Functions:
    """Return the callables among the candidates and the scorer, by the digest of their code in the plan."""
    scorer = settings["scorer"]
    own = {PythonScorer(name_of(scorer), scorer).code: scorer} if callable(scorer) else {}
    return {**functions_of(settings.candidates), **own}


def _usual_scorer(settings: Settings, items: Sequence[Item]) -> str:
    if all(one.model_name.startswith(RECORDED) for one in settings.candidates):
        return Recorded.name
    return "choice" if items[0].choices else "exact"


def samples_of(settings: Settings) -> Samples:
    """Return how often every question is asked; more than once only where answers differ."""
    samples = Samples.wanted(settings.options)
    flag = next(name for name in ("samples", "pass_at", "pass_all") if settings[name] or name == "pass_all")
    if samples.count > 1 and any(map(_is_certain_to_repeat, settings.candidates)):
        wanted = "given with a --temperature above 0: at 0 all answers are alike"
        raise InvalidInput(flag, wanted, samples.count)
    if samples.count > 1 and any(one.model_name.startswith("external/") for one in settings.candidates):
        raise InvalidInput(flag, "left out where answers come from outside", samples.count)
    return samples


def _is_certain_to_repeat(candidate: Candidate) -> bool:
    """Tell whether a candidate is asked at temperature 0; nobody knows how a function answers."""
    return candidate.options.get("temperature", 0.0) == 0 and not candidate.model_name.startswith("python:")


def rescoring_spec(scorer: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scorer of a plan with what is wanted in its place."""
    spec = wanted.get("scorer") or scorer["spec"]
    return {
        "spec": _with_texts(spec, wanted.get("rubric"), wanted.get("judge_template"), None),
        "judge": list(wanted.get("judge") or ()) or None,
        "judge_base_url": wanted.get("judge_base_url"),
        **{name: scorer[name] for name in ("samples",) if name in scorer},
    }


def _with_texts(scorer: Any, rubric: str | None, template: str | None, raters: int | None) -> Any:
    """Return a scorer; with a rubric or a template for its judge as name and arguments."""
    own = {"criteria": text_of(rubric), "template": text_of(template)}
    given = {name: value for name, value in own.items() if value is not None}
    name = scorer_name(scorer)
    if name == People.name and template is None:
        found = build_scorer(scorer)
        assert isinstance(found, People)
        criteria = given.get("criteria", found.criteria)
        return spec_of(replace(found, criteria=criteria, raters=found.raters if raters is None else raters))
    if raters is not None:
        raise InvalidInput("raters", "given with --scorer people", raters)
    if given and name not in JUDGES:
        raise InvalidInput(
            "--rubric and --judge-template", "given with --scorer grade, prefer or panel", name
        )
    if not given:
        return scorer
    name, settings = named(scorer)
    return {"name": name, **settings, **given}


def scorer_name(spec: Any) -> str:
    return spec.partition(":")[0] if isinstance(spec, str) else str(spec.get("name"))


def open_scorers(
    plan: Plan,
    items: Sequence[Item],
    circumstances: Mapping[str, Any],
    prompts: Sequence[Prompt],
    functions: Functions | None = None,
) -> tuple[tuple[Scorer, ...], list[Model]]:
    """Return the scorer of a plan for each candidate, since a judge sees what the candidate was asked, and the judges.

    What could not score anything is refused.
    """
    spec, names = plan.scorer["spec"], plan.judges
    need_answers(plan, items, "the data")
    judges = [_open_judge(name, plan, circumstances) for name in names if scorer_name(spec) in JUDGES]
    own = (functions or {}).get(plan.scorer.get("code", ""), spec)
    scorers = tuple(build_scorer(own, judges, prompt.messages) for prompt in prompts)
    scorer = scorers[0]
    # Where people score, a judge only grades beforehand (`cereval.runner.people`).
    if names and not judges and not isinstance(scorer, People):
        raise InvalidInput("judge", f"left out for the scorer `{scorer.name}`", names[0])
    _check_scorer(scorer, items)
    return scorers, judges


def _open_judge(name: str, plan: Plan, circumstances: Mapping[str, Any]) -> Model:
    options = ModelOptions(
        base_url=_judge_address(name, plan, circumstances),
        settings=RequestSettings(),
        price=price_of(circumstances, "judge_"),
        timeout_s=call_options(circumstances, 0)["timeout"],
        connections=circumstances["connections"],
    )
    try:
        return open_model(name, options)
    except InvalidInput as error:
        raise InvalidInput(error.field.replace("model", "judge"), error.allowed, error.received) from None
    except CallError as error:
        remedy = str(error).replace("--base-url", "--judge-base-url")
        raise CallError(f"the judge {name} cannot be asked: {remedy}") from None


def _judge_address(name: str, plan: Plan, circumstances: Mapping[str, Any]) -> str | None:
    """Return where a judge is asked: at the judges' own address, else at that of the first candidate."""
    given = plan.scorer.get("judge_base_url")
    if not name.startswith("openai/"):
        # Where no judge is asked there, the address is refused.
        return None if any(one.startswith("openai/") for one in plan.judges) else given
    return str(given) if given else address_of(plan.candidates[0], circumstances.get("base_url"))


def named_by_scoring(
    plan: Plan, circumstances: Mapping[str, Any], functions: Functions | None = None
) -> tuple[Named, ...]:
    """Return what scoring answers as a plan says would run or call, but for given functions."""
    asked = [named_by_model(name, _judge_address(name, plan, circumstances)) for name in plan.judges]
    given = plan.scorer.get("code", "") in (functions or {})
    return (*chain(*asked), *(() if given else named_by_scorer(plan.scorer["spec"])))


def _check_scorer(scorer: Scorer, items: Sequence[Item]) -> None:
    """Refuse before the first call what would fail, or score nothing, on every answer."""
    if scorer.name == "choice" and items and not any(item.choices for item in items):
        raise BadFile(
            "the data has no choices, which the scorer `choice` needs; name their field with --choices"
        )
    if scorer.name == "math":
        optional("math_verify", "math")
    if isinstance(scorer, People) and scorer.how == "prefer" and not all(item.answers for item in items):
        raise BadFile(
            "people compare the model's answer with the data's own, and some items have none; name it with --answer"
        )
    if isinstance(scorer, PythonScorer | Grade | Prefer | Panel) and items:
        scorer.check(items)


def whole_scorer(plan: Plan, scorer: Scorer) -> dict[str, Any]:
    """Return the scorer in full, so that a default that changes later does not change the run."""
    spec = {
        key: value
        for key, value in spec_of(scorer).items()
        if key != "judge" and (value, key) != ("", "template")
    }
    # Code that was edited is another scorer: scores of the old one must not come back as its own.
    code = {"code": scorer.code} if isinstance(scorer, PythonScorer) else {}
    return {**plan.scorer, "spec": spec, **code}


def need_answers(plan: Plan, items: Sequence[Item], source: str) -> None:
    """Refuse data, or a part of it, that the scorer has nothing to compare with."""
    name = scorer_name(plan.scorer["spec"])
    if name in COMPARING and items and not any(item.answers for item in items):
        raise BadFile(
            f"{source} has no field that looks like the right answer, which the scorer `{name}` needs; name it with "
            f"--answer (it has {list_names(dict.fromkeys(key for item in items for key in item.metadata))})"
        )
