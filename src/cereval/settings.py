"""Every option of cereval, declared once.

From the typed dictionaries below come the flags of the command line with their help, the keys of YAML files, the
keyword arguments of Python (`Unpack[RunOptions]`, so that an editor completes them) and all checks. A `Candidate` is
what is evaluated: a model with its prompt and request settings. `Settings` is one question about candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from cereval.errors import InvalidInput
from cereval.questions import kind_named
from cereval.questions.compare.goal import Difference, NotWorse, Sign
from cereval.questions.each.goal import EachAtLeast
from cereval.questions.mean.goal import Estimate, Finest, Threshold
from cereval.questions.rank.goal import Beats, Order, Top
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, WhichFail
from cereval.text import did_you_mean

LARGEST = 1e300
"""Of the numbers in options: neither infinite nor no number at all."""

Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST, description="a number")]
Share = Annotated[float, Meta(gt=0, lt=1, description="a number in (0, 1)")]
Positive = Annotated[float, Meta(gt=0, le=LARGEST, description="a number > 0")]
Price = Annotated[float, Meta(ge=0, le=LARGEST, description="a number >= 0")]
Count = Annotated[int, Meta(ge=1, le=2**53, description="a whole number >= 1")]
MOST_CONNECTIONS = 10_000
"""Each is a worker of its own, and may be a socket."""
Connections = Annotated[
    int, Meta(ge=1, le=MOST_CONNECTIONS, description=f"a whole number >= 1 and at most {MOST_CONNECTIONS:,}")
]
SampleCount = Annotated[int, Meta(ge=1, le=1000, description="a whole number in [1, 1000]")]
Text = Annotated[str, Meta(description="a text")]
Texts = Annotated[list[str], Meta(description="a text, or a list of texts")]
Choice = Annotated[bool, Meta(description="true or false")]

FROM_STORE = "store"
"""History: what earlier runs in the store answered to the same questions."""


@dataclass(frozen=True, slots=True)
class Option:
    """Describe an option: `help` is one sentence, `flags` are its spellings where they are not --NAME.

    default: the value where nobody gives one. off: the flag that switches a yes-or-no option off.
    """

    help: str
    flags: tuple[str, ...] = ()
    metavar: str = ""
    default: Any = None
    off: str = ""


# -- candidates -------------------------------------------------------------------------------------------------------


class PriceOptions(TypedDict, total=False):
    """What a candidate costs, where nobody else knows."""

    price_in: Annotated[
        Price,
        Option("Price of a million input tokens, where the list of prices does not know it.", metavar="USD"),
    ]
    price_out: Annotated[Price, Option("Price of a million output tokens.", metavar="USD")]


class CandidateOptions(PriceOptions, total=False):
    """What belongs to a candidate, beside its model. In `compare` and `rank` each may be given once for all
    candidates, or once for each of them."""

    base_url: Annotated[
        Text, Option("Address of an OpenAI-compatible server, usually ending in /v1.", metavar="URL")
    ]
    system: Annotated[Text, Option("The system prompt, or @FILE.", metavar="TEXT|@FILE")]
    template: Annotated[
        Text, Option("The prompt in Jinja2, such as 'Q: {{ question }}', or @FILE.", metavar="TEXT|@FILE")
    ]
    few_shot: Annotated[
        Annotated[int, Meta(ge=0, le=10_000, description="a whole number >= 0")],
        Option("Put N worked examples, taken out of the data, before each question.", metavar="N", default=0),
    ]
    choose: Annotated[
        Literal["text", "logprobs"],
        Option(
            "How a choice is read: from the answer's text, or as the likeliest letter, where the server sends "
            "log-probabilities.",
            default="text",
        ),
    ]
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None,
        Option("Sampling temperature; `none` leaves it to the server.", metavar="T|none", default=0.0),
    ]
    max_tokens: Annotated[Count, Option("Longest answer, in tokens.", metavar="N")]
    request: Annotated[
        dict[str, Any],
        Option(
            'Put a field into every request, such as --set top_p=0.9 or --set \'reasoning={"effort": "low"}\'.',
            flags=("--set",),
            metavar="KEY=JSON",
        ),
    ]
    schema: Annotated[Text, Option("Ask for answers that fit this JSON schema (a file).", metavar="FILE")]
    revision: Annotated[
        Text,
        Option("Name of the checkpoint, where several are served under one model name.", metavar="NAME"),
    ]
    timeout: Annotated[Positive, Option("Wait at most S seconds for one answer.", metavar="S", default=120.0)]


class Candidate:
    """What is evaluated: a model with its prompt, request settings, address and revision, or any callable.

    name: what lists and results call it; without one, the model and what distinguishes it from the others.

    >>> Candidate("openai/gpt-4o", system="Be brief.", name="brief")
    Candidate('openai/gpt-4o', name='brief', system='Be brief.')
    """

    __slots__ = ("model", "name", "options")

    def __init__(
        self, model: str | Callable[..., Any], *, name: str = "", **options: Unpack[CandidateOptions]
    ) -> None:
        if not callable(model) and (not isinstance(model, str) or not model):
            raise InvalidInput("model", "a name such as openai/NAME, or a function", model)
        if not isinstance(name, str):
            raise InvalidInput("name", "a text", name)
        self.model = model
        self.name = name
        self.options: CandidateOptions = check_options(options, CandidateOptions)  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [repr(self.model), *([f"name={self.name!r}"] if self.name else [])]
        return (
            f"Candidate({', '.join([*parts, *(f'{key}={value!r}' for key, value in self.options.items())])})"
        )

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Candidate) and (self.model, self.name) == (other.model, other.name)
        return same and isinstance(other, Candidate) and self.options == other.options

    def __hash__(self) -> int:
        return hash((self.model, self.name, repr(sorted(self.options.items()))))

    @property
    def model_name(self) -> str:
        """Return the model as text; a callable by the name of its code."""
        if isinstance(self.model, str):
            return self.model
        return "python:" + getattr(self.model, "__qualname__", type(self.model).__qualname__)


# -- what runs take ---------------------------------------------------------------------------------------------------


class FieldOptions(TypedDict, total=False):
    """Where the parts of a question are in the data."""

    input: Annotated[Text, Option("The field with the question.", metavar="FIELD")]
    answer: Annotated[Text, Option("The field with the right answer.", metavar="FIELD")]
    choices: Annotated[Text, Option("The field with the choices, or several as A,B,C,D.", metavar="FIELD")]
    category: Annotated[Text, Option("The field with the category.", metavar="FIELD")]
    id: Annotated[Text, Option("The field with the item's id.", metavar="FIELD")]


class ScoringOptions(TypedDict, total=False):
    """How answers are scored."""

    scorer: Annotated[
        Any,
        Option(
            "How answers are scored: exact, contains, regex:PATTERN, choice, numeric, math, f1, python:..., grade, "
            "prefer, panel:majority, people, people:scale, "
            "people:prefer.  [default: choice where questions have choices, else exact]",
            metavar="NAME",
        ),
    ]
    raters: Annotated[
        Count,
        Option(
            "With --scorer people: labels by different people that an answer needs.  [default: 1]",
            metavar="N",
        ),
    ]
    judge: Annotated[
        Texts,
        Option(
            "The model behind the scorers grade and prefer; with people, it grades all answers first, to find where "
            "labels are worth most. Repeat it for a panel, whose mean counts; with --scorer panel:majority, the "
            "majority.",
            metavar="MODEL",
        ),
    ]
    judge_base_url: Annotated[
        Text,
        Option("The address of judges that are openai/NAME.  [default: that of --base-url]", metavar="URL"),
    ]
    judge_template: Annotated[
        Text,
        Option(
            "The judge's prompt. For grade it has {question}, {answer}, {reference}, {criteria}; the judge must end "
            "with a grade from 1 to 10 as [[5]], and the score is (grade - 1)/9. For prefer it has {question}, "
            "{first}, {second}; the judge must answer m or M and give log-probabilities.",
            metavar="TEXT|@FILE",
        ),
    ]
    rubric: Annotated[
        Text, Option("Criteria for the judge, put into its template, and for people.", metavar="TEXT|@FILE")
    ]
    judge_price_in: Annotated[Price, Option("Price of a million input tokens of the judge.", metavar="USD")]
    judge_price_out: Annotated[Price, Option("Price of a million output tokens of the judge.", metavar="USD")]


class ReuseOptions(TypedDict, total=False):
    """Which answers in the store may be used again."""

    fresh: Annotated[
        Choice,
        Option(
            "Ask every question again, or reuse stored answers of the same candidate (only at temperature 0).  "
            "[default: --reuse; --fresh for `gate`]",
            off="--reuse",
        ),
    ]
    max_age: Annotated[Text, Option("Reuse no answer older than this, such as 12h or 7d.", metavar="AGE")]


class LimitOptions(TypedDict, total=False):
    """How much may be asked and spent."""

    connections: Annotated[
        Connections,
        Option(
            "Make at most N calls at a time.",
            flags=("-j", "--max-connections", "--connections"),
            metavar="N",
            default=8,
        ),
    ]
    max_calls: Annotated[
        Count, Option("Ask at most N questions.", flags=("--max-calls", "--budget"), metavar="N")
    ]
    max_usd: Annotated[
        Positive,
        Option(
            "Spend at most this; each call in flight is counted at the highest cost of a call so far.",
            metavar="USD",
        ),
    ]
    max_minutes: Annotated[Positive, Option("Stop after M minutes.", metavar="M")]
    batch: Annotated[
        Choice,
        Option(
            "Order the answers as batches of the provider, or ask one by one: a batch costs half and may take a day; "
            "a run takes about five.  [default: --live; for `resume` as before]",
            off="--live",
        ),
    ]


class PlaceOptions(TypedDict, total=False):
    """Where runs are kept, and under which names."""

    store: Annotated[
        Text,
        Option(
            "Results database: sqlite:///FILE or postgresql://...",
            metavar="URL",
            default="sqlite:///cereval.db",
        ),
    ]
    trust: Annotated[
        Choice,
        Option(
            "Run the Python code, call the addresses and read the files that the store or a task file names; this "
            "consent is remembered."
        ),
    ]
    tags: Annotated[Texts, Option("A tag for the run; may be repeated.", flags=("--tag",), metavar="TAG")]


class CommonOptions(FieldOptions, ScoringOptions, ReuseOptions, LimitOptions, PlaceOptions, total=False):
    """What every question to candidates takes."""

    confidence: Annotated[
        Share, Option("Probability with which the answer holds, at least.", default=0.95, metavar="P")
    ]
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1, description="a whole number >= 0")],
        Option(
            "Number that decides the draws; set it to repeat a run.  [default: drawn at random, recorded]",
            metavar="N",
        ),
    ]


class HistoryOptions(TypedDict, total=False):
    """What is known of the questions before the first draw."""

    history: Annotated[
        Texts,
        Option(
            "Where forecasts come from: `store` (earlier runs on the same questions, the default) or `none`; with "
            "recorded scores also `others` (all other columns), a column or a file.  May be repeated.",
            metavar="store|none|others|COLUMN|FILE",
            off="--no-history",
        ),
    ]


class WeightOptions(TypedDict, total=False):
    """How items are weighted in the mean."""

    weights: Annotated[
        Text,
        Option(
            "Weights of the items in the mean: a file with `item` and `weight`, or a column of the items.",
            metavar="FILE|COLUMN",
        ),
    ]
    mix: Annotated[
        Text,
        Option(
            "Shares of the categories in the mean, such as law=0.7,art=0.3, or a file with `category` and `share`; "
            "shares are relative.",
            metavar="NAME=SHARE,...|FILE",
        ),
    ]


class SampleOptions(TypedDict, total=False):
    """How often each question is asked."""

    samples: Annotated[
        SampleCount,
        Option(
            "Ask every question drawn N times (--temperature above 0); its score is the mean.", metavar="N"
        ),
    ]
    pass_at: Annotated[
        SampleCount,
        Option(
            "Its score is pass@K instead: the chance that the best of K answers is right, from N answers (default K).",
            metavar="K",
        ),
    ]
    pass_all: Annotated[
        SampleCount,
        Option(
            "Its score is pass^K instead: the chance that all of K answers are right, from N answers (default K).",
            metavar="K",
        ),
    ]


class ClusterOptions(TypedDict, total=False):
    """Which questions belong together."""

    cluster: Annotated[
        Text,
        Option(
            "With --target population: the field that names which questions belong together, such as those about one "
            "text (or `category`). Clusters are drawn, each counts once, and the mean is over clusters.",
            metavar="FIELD",
        ),
    ]


class MeanOptions(
    CandidateOptions, CommonOptions, HistoryOptions, WeightOptions, SampleOptions, ClusterOptions, total=False
):
    """What questions about one mean take."""

    method: Annotated[
        Text,
        Option(
            "How questions are chosen: auto, uniform, active, all, memory (target expected), or one of the paper's.",
            default="auto",
            metavar="NAME",
        ),
    ]
    target: Annotated[
        Text,
        Option(
            "What the mean is over: benchmark: these questions. population: all questions of this kind, if these are a "
            "random sample. expected: all answers the model could give to these questions.  [default: expected at a "
            "temperature other than 0, else benchmark]",
            metavar="NAME",
        ),
    ]


class EachOptions(TypedDict, total=False):
    """Every question judged by itself."""

    each_at_least: Annotated[
        Number,
        Option(
            "Instead: which questions are answered right at least this share of the time? Each is asked again until it "
            "is known, 200 times at most.",
            metavar="C",
        ),
    ]


class RunOptions(MeanOptions, EachOptions, total=False):
    """`evaluate` and `cereval run`."""

    eps: Annotated[
        Annotated[Share | Literal["auto"], Meta(description="a number in (0, 1), or auto")],
        Option(
            "Stop when the mean is known within this; `auto`: as near as --max-usd, --max-calls or --max-minutes "
            "allow.  [default: 0.02]",
            metavar="EPS|auto",
        ),
    ]
    min: Annotated[
        Number,
        Option(
            "Stop when it is certain whether the mean is >= C.",
            flags=("--at-least", "--threshold", "--min"),
            metavar="C",
        ),
    ]


class GateOptions(MeanOptions, EachOptions, total=False):
    """`cereval gate`."""

    min: Annotated[Number, Option("The mean score to reach.", flags=("--min", "--at-least"), metavar="C")]


class CompareOptions(
    CandidateOptions,
    CommonOptions,
    HistoryOptions,
    WeightOptions,
    SampleOptions,
    ClusterOptions,
    total=False,
):
    """`compare` and `cereval compare`."""

    target: Annotated[
        Literal["benchmark", "population", "expected"],
        Option(
            "What the difference is over: benchmark: these questions. population: all questions of this kind, if these "
            "are a random sample. expected: all answers the models could give to these questions.  [default: expected "
            "at a temperature other than 0, else benchmark]",
        ),
    ]
    tie: Annotated[
        Number,
        Option(
            "Differences up to this count as none; with 0 only exact equality does.  [default: 0.02]",
            flags=("--tie", "--eps"),
            metavar="EPS",
        ),
    ]
    within: Annotated[Number, Option("Instead: stop when the difference is known within EPS.", metavar="EPS")]
    not_worse: Annotated[
        Number,
        Option(
            "Instead: is the first candidate at most EPS worse than the second? 0: at least as good? In CI with "
            "--fresh.",
            metavar="EPS",
        ),
    ]
    baseline: Annotated[
        Text,
        Option(
            "Instead of a second candidate: what an earlier run answered, by its id, name or tag; `last` is the newest "
            "that ended on these questions. Its stored answers cost nothing; the new candidate gets fresh calls, "
            "unless --reuse or --max-age says otherwise.",
            metavar="RUN|NAME|last",
        ),
    ]


class FreshOptions(TypedDict, total=False):
    """Whether means are of these answers or of fresh ones."""

    target: Annotated[
        Literal["benchmark", "expected"],
        Option(
            "What the means are over: benchmark: these questions. expected: all answers the models could give.  "
            "[default: expected at a temperature other than 0, else benchmark]",
        ),
    ]


class RankOptions(CandidateOptions, CommonOptions, HistoryOptions, SampleOptions, FreshOptions, total=False):
    """`rank` and `cereval rank`."""

    tie: Annotated[
        Number,
        Option(
            "Candidates whose means differ by no more than this need no order.  [default: 0.05]",
            metavar="EPS",
        ),
    ]
    doubt: Annotated[
        Number,
        Option(
            "Call a pair a tie, and ask no more about it, when the chance that it is further apart than --tie is "
            "below P; saves calls, certifies nothing.  [default: 0.05]",
            metavar="P",
        ),
    ]
    prove_ties: Annotated[Choice, Option("Go on until every tie is certified too.")]
    top: Annotated[Count, Option("Instead: find the K best.", metavar="K")]
    within: Annotated[
        Number,
        Option("With --top: each is less than this below the K-th best.  [default: 0.02]", metavar="EPS"),
    ]
    beats: Annotated[
        Text,
        Option("Instead: which candidates beat this one?", metavar="NAME"),
    ]


class TasksOptions(CandidateOptions, CommonOptions, HistoryOptions, SampleOptions, FreshOptions, total=False):
    """`tasks` and `cereval tasks`."""

    eps: Annotated[Share, Option("Stop when the macro mean is known within this.  [default: 0.02]")]
    each_eps: Annotated[
        Share, Option("Also, or instead: stop when every task's mean is known within this.", metavar="EPS")
    ]
    min: Annotated[
        Number,
        Option(
            "Instead: is every task's mean >= C? In CI with --fresh.",
            flags=("--at-least", "--min"),
            metavar="C",
        ),
    ]
    which_fail: Annotated[Number, Option("Instead: which tasks' means are < C?", metavar="C")]
    by: Annotated[Text, Option("The field that names the task.  [default: category]", metavar="FIELD")]


class ExtendOptions(CandidateOptions, CommonOptions, total=False):
    """`extend` and `cereval extend`."""

    eps: Annotated[Share, Option("Stop when every version's mean is known within this.  [default: 0.02]")]
    target: Annotated[
        Literal["benchmark", "population"],
        Option(
            "What the means are over: benchmark: each version's questions. population: all questions of this kind, if "
            "every version is a random sample of them.",
            default="benchmark",
        ),
    ]


class AgainOptions(LimitOptions, PriceOptions, total=False):
    """What may change when a run goes on."""

    base_url: Annotated[Text, Option("The server's address, if it has moved.", metavar="URL")]
    timeout: Annotated[Positive, Option("Wait at most S seconds for one answer.", metavar="S")]


ACCEPTED: Mapping[str, type] = {
    "estimate": RunOptions,
    "compare": CompareOptions,
    "rank": RankOptions,
    "tasks": TasksOptions,
    "growing": ExtendOptions,
    "each": RunOptions,
}
"""What each kind of question takes."""


# -- checks -----------------------------------------------------------------------------------------------------------


class Declared(NamedTuple):
    """One option as it is declared: its name, its type, and what it says."""

    name: str
    kind: Any
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        return self.option.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def plain(self) -> Any:
        """Return the type without its limits: int, float, str, bool, list, dict, Any, or a Literal."""
        kind = self.kind
        while get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        return get_origin(kind) if get_origin(kind) in (list, dict) else kind

    @property
    def words(self) -> str:
        notes = [note.description for note in get_args(self.kind)[1:] if isinstance(note, Meta)]
        if get_origin(self.plain) is Literal:
            return "one of " + ", ".join(map(str, get_args(self.plain)))
        return next(
            (text for text in notes if text),
            {dict: "a mapping"}.get(self.plain, "a number in [0, 2], or none"),
        )


@cache
def declared(accepted: type) -> Mapping[str, Declared]:
    """Return the options that a typed dictionary declares, by name, in their order."""
    found = {}
    for name, hint in get_type_hints(accepted, include_extras=True).items():
        kind, *notes = get_args(hint)
        (option,) = (note for note in notes if isinstance(note, Option))
        limits = tuple(note for note in notes if isinstance(note, Meta))
        found[name] = Declared(name, Annotated[kind, *limits] if limits else kind, option)
    return found


@cache
def _aliases(accepted: type) -> Mapping[str, str]:
    spellings = {
        flag.lstrip("-").replace("-", "_"): one.name
        for one in declared(accepted).values()
        for flag in one.flags
    }
    return {**spellings, **{name: name for name in declared(accepted)}}


def option_name(spelling: Any, accepted: type) -> str | None:
    """Return the name of the option that a key of a file or a keyword means; None: there is no such option.

    >>> option_name("max-connections", RunOptions), option_name("at_least", RunOptions), option_name("x", RunOptions)
    ('connections', 'min', None)
    """
    return _aliases(accepted).get(str(spelling).replace("-", "_"))


def check_options(
    values: Mapping[str, Any], accepted: type, source: str = "", also: Sequence[str] = ()
) -> dict[str, Any]:
    """Return options under their own names, each of its kind; refuse unknown names and wrong values.

    source: the file that they stand in. also: other names that may be meant. Values of None were not given, but for a
    temperature, where None leaves it to the server.

    >>> check_options({"max-calls": 10}, RunOptions)
    {'max_calls': 10}
    >>> check_options({"sede": 10}, RunOptions)
    Traceback (most recent call last):
    cereval.errors.InvalidInput: option must be one that is taken here (did you mean 'seed'?), got 'sede'
    """
    known, found = declared(accepted), dict[str, Any]()
    for key, value in values.items():
        name = option_name(key, accepted)
        if name is None:
            where = f" in {source}" if source else ""
            hint = did_you_mean(str(key), [*known, *also])
            hint += "; fields of a request go under `set`" if accepted is CandidateOptions else ""
            raise InvalidInput(f"option{where}", f"one that is taken here ({hint})", key)
        if value is None and name != "temperature":
            continue
        if name in found:
            raise InvalidInput(
                f"{key}{f' in {source}' if source else ''}", f"left out where {name} is given", value
            )
        found[name] = checked_value(known[name], value, f"{name} in {source}" if source else name)
    return found


def checked_value(one: Declared, value: Any, field: str) -> Any:
    if one.plain is list and isinstance(value, str):
        value = [value]
    if one.name == "history" and isinstance(value, bool):
        value = [FROM_STORE if value else "none"]
    try:
        return msgspec.convert(value, one.kind)
    except msgspec.ValidationError:
        raise InvalidInput(field, one.words, value) from None


def complete(options: Mapping[str, Any], accepted: type) -> dict[str, Any]:
    return {name: options.get(name, one.option.default) for name, one in declared(accepted).items()}


# -- one question -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """One question, whole: its kind and goal, its data, who is evaluated, and a value for every option.

    data: one source, or several where each is a task.
    """

    kind: str
    goal: Any
    data: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """Return the value of an option; None where this kind of question does not take it."""
        return self.options.get(name)

    @property
    def uses_store_history(self) -> bool:
        """Tell whether earlier runs in the store may steer the draws."""
        wanted = self.options.get("history")
        usual = self.kind != "rank"
        return usual if wanted is None else FROM_STORE in wanted


def settings_of(
    kind: str,
    data: str | Sequence[str],
    candidates: Sequence[Candidate],
    options: Mapping[str, Any],
    goal: Any = None,
) -> Settings:
    """Return the whole settings of a question, from what was given; what cannot be asked is refused here.

    options: those of the kind, checked. goal: in place of the options that say one.
    """
    if kind == "estimate" and (options.get("each_at_least") is not None or isinstance(goal, EachAtLeast)):
        kind = "each"
    accepted = ACCEPTED[kind]
    names = [name for name in GOAL_OPTIONS[kind] if options.get(name) is not None]
    if goal is not None and names:
        raise InvalidInput(names[0], "left out where `goal` is given", options[names[0]])
    allowed = kind_named(kind).goals
    if goal is not None and not isinstance(goal, allowed):
        raise InvalidInput("goal", "one of " + ", ".join(one.__name__ for one in allowed), goal)
    wanted = options.get("history")
    if wanted is not None:
        for name in set(wanted) - {FROM_STORE, "none"}:
            raise InvalidInput("history", "`store` or `none` where models are asked", name)
    sources = (data,) if isinstance(data, str) else tuple(data)
    if not sources or not all(sources):
        raise InvalidInput("DATA", "a file (jsonl, csv, parquet), hf:org/name, or a task file (yaml)", data)
    chosen = goal_of(kind, options, candidates) if goal is None else goal
    if isinstance(chosen, Finest) and all(options.get(name) is None for name in BUDGETS):
        raise InvalidInput("eps", "a number, or auto with --max-usd, --max-calls or --max-minutes", "auto")
    rest = {
        name: value
        for name, value in complete(options, accepted).items()
        if name not in CandidateOptions.__annotations__
    }
    if rest.get("baseline") is not None and rest["fresh"] is None:
        # Yesterday's answers of the same candidate would make the comparison one with itself.
        rest["fresh"] = rest["max_age"] is None
    return Settings(kind, chosen, sources, tuple(candidates), rest)


# -- goals ------------------------------------------------------------------------------------------------------------

BUDGETS = ("max_usd", "max_calls", "max_minutes")
"""The options that end a run whatever its goal."""

GOAL_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "estimate": ("eps", "min"),
    "compare": ("tie", "within", "not_worse"),
    "rank": ("tie", "doubt", "prove_ties", "top", "within", "beats"),
    "tasks": ("eps", "each_eps", "min", "which_fail"),
    "growing": ("eps",),
    "each": ("each_at_least", "eps", "min"),
}
"""The options that say what is asked, by kind."""

EXCLUSIVE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "estimate": (("eps",), ("min",)),
    "compare": (("tie",), ("within",), ("not_worse",)),
    "rank": (("top", "within"), ("beats",)),
    "tasks": (("eps", "each_eps"), ("min",), ("which_fail",)),
    "growing": (),
    "each": (("each_at_least",), ("eps",), ("min",)),
}
"""Groups of them that exclude one another: each is a goal of its own."""


def goal_of(kind: str, options: Mapping[str, Any], candidates: Sequence[Candidate] = ()) -> Any:
    """Return the goal that options ask for.

    >>> goal_of("estimate", {"min": 0.8}), goal_of("compare", {"not_worse": 0.01})
    (Threshold(value=0.8), NotWorse(eps=0.01))
    """
    given = {name: options[name] for name in GOAL_OPTIONS[kind] if options.get(name) is not None}
    return _GOALS[kind](given, candidates)


def _mean_goal(given: Mapping[str, Any], _: Sequence[Candidate]) -> Any:
    _one_of(given, EXCLUSIVE["estimate"])
    if given.get("eps") == "auto":
        return Finest()
    return Threshold(given["min"]) if "min" in given else Estimate(**given)


def _each_goal(given: Mapping[str, Any], _: Sequence[Candidate]) -> Any:
    _one_of(given, EXCLUSIVE["each"])
    return EachAtLeast(given["each_at_least"])


def _compare_goal(given: Mapping[str, Any], _: Sequence[Candidate]) -> Any:
    _one_of(given, EXCLUSIVE["compare"])
    if "within" in given:
        return Difference(given["within"])
    return NotWorse(given["not_worse"]) if "not_worse" in given else Sign(**given)


def _rank_goal(given: Mapping[str, Any], candidates: Sequence[Candidate]) -> Any:
    _one_of(given, EXCLUSIVE["rank"])
    if "top" in given:
        _only(given, "top", "within")
        return Top(given["top"], **{name: given[name] for name in ("within",) if name in given})
    if "within" in given:
        raise InvalidInput("within", "given with --top", given["within"])
    shared: dict[str, Any] = {name: given[name] for name in ("tie", "doubt") if name in given}
    if given.get("prove_ties"):
        if "doubt" in given:
            raise InvalidInput("doubt", "left out with --prove-ties, which gives no pair up", given["doubt"])
        shared["proven"] = True
    if "beats" not in given:
        return Order(**shared)
    names = [one.name or one.model_name for one in candidates]
    if given["beats"] not in names:
        raise InvalidInput(
            "beats", f"one of the candidates ({did_you_mean(given['beats'], names)})", given["beats"]
        )
    return Beats(**shared, baseline=names.index(given["beats"]))


def _tasks_goal(given: Mapping[str, Any], _: Sequence[Candidate]) -> Any:
    _one_of(given, EXCLUSIVE["tasks"])
    if "min" in given:
        return AllAtLeast(given["min"])
    if "which_fail" in given:
        return WhichFail(given["which_fail"])
    if "each_eps" in given and "eps" not in given:
        return EachWithin(given["each_eps"])
    return Macro(**{"each" if name == "each_eps" else name: value for name, value in given.items()})


_GOALS: Mapping[str, Callable[[Mapping[str, Any], Sequence[Candidate]], Any]] = {
    "estimate": _mean_goal,
    "compare": _compare_goal,
    "rank": _rank_goal,
    "tasks": _tasks_goal,
    "growing": _mean_goal,
    "each": _each_goal,
}


def _one_of(given: Mapping[str, Any], groups: Sequence[Sequence[str]]) -> None:
    named = [[name for name in group if name in given] for group in groups]
    used = [names[0] for names in named if names]
    if len(used) > 1:
        raise InvalidInput(used[1], f"left out where {used[0]} is given", given[used[1]])


def _only(given: Mapping[str, Any], *names: str) -> None:
    for name in given:
        if name not in names:
            raise InvalidInput(name, f"left out with --{names[0]}", given[name])
