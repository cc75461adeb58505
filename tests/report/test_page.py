"""The page as text: what it says, what it must not hold."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from stories import Reply, pool, stored_run, told
from tests.report.stories import named

from cereval.certificate.verify import verify
from cereval.errors import BadFile, CerevalError
from cereval.questions.mean.page import categories_of
from cereval.records import Draw
from cereval.report import page_of, render, write_page
from cereval.report.frontier import precision_costs
from cereval.report.story import Story, read_story
from cereval.store.base import open_store
from cereval.text import money, rounded

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\x1b[31m\u202e</style>{{ 7*7 }}"


class Reader(HTMLParser):
    """Collects tags, attributes and the visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def right(item: int) -> Reply:
    return Reply("four", float(item % 4 > 0))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return told(tmp_path_factory.mktemp("story"), right)


def test_the_headline_says_what_is_certified(story: Story) -> None:
    text, result = " ".join(Reader(render(story)).text.split()), story.result
    assert f"95% confidence, {result.n_evaluated} of 300 questions asked" in text
    assert re.search(r"\d\d\.\d% \(\d\d\.\d% to \d\d\.\d%\)", text)
    assert "no matter when the run was stopped" in text


def test_nothing_is_fetched_and_nothing_runs(story: Story) -> None:
    page = Reader(render(story))
    assert not {"script", "link", "iframe", "img", "object", "base"} & set(page.tags)
    addresses = [value for name, value in page.attributes if name in ("href", "src", "srcset", "action")]
    assert [address[:28] for address in addresses] == ["data:application/json;base64"]
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "@import" not in render(story)
    assert "url(" not in render(story)


def test_the_certificate_travels_with_the_page(story: Story) -> None:
    (address,) = [value for name, value in Reader(render(story)).attributes if name == "href"]
    assert verify(json.loads(base64.b64decode(address.partition(",")[2]))).status == "valid"


def test_hostile_texts_are_shown_as_text(tmp_path: Path) -> None:
    story = told(
        tmp_path,
        lambda item: Reply(HOSTILE, float(item % 2)),
        data=pool(question=HOSTILE),
        candidates=named(HOSTILE),
        data_name=HOSTILE,
    )
    page = render(story)
    reader = Reader(page)
    assert "script" not in reader.tags
    assert "img" not in reader.tags
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "{{ 7*7 }}" in reader.text


def test_broken_unicode_and_endless_answers(story: Story) -> None:
    asked = [
        replace(
            one, answer=replace(one.answer, text="\ud800\udfff" + "A" * 10_000_000 if n < 2 else "\ud800")
        )
        for n, one in enumerate(story.asked)
        if one.answer is not None
    ]
    page = render(replace(story, asked=tuple(asked)))
    page.encode()
    assert len(page) < 300_000
    assert "more characters" in page


def test_failed_calls_are_told(tmp_path: Path) -> None:
    story = told(tmp_path, lambda item: Reply("", None) if item % 9 == 0 else right(item))
    text = Reader(render(story)).text
    assert story.result.failures > 0
    assert "Failed calls" in text
    assert "timeout: <b>no answer</b>" in text


def test_even_draws_give_simultaneous_intervals(story: Story) -> None:
    assert all(category.interval is not None for category in categories_of(story))
    assert "hold simultaneously" in Reader(render(story)).text


def test_uneven_draws_are_descriptive_only(tmp_path: Path) -> None:
    told(tmp_path, lambda item: Reply("x", float(item % 5 > 0)), goal={"goal": "estimate", "eps": 0.01})
    story = told(tmp_path, lambda item: Reply("x", float(item % 5 > 0 < item % 7)), candidates=named("next"))
    assert story.plan is not None
    assert "history" in story.plan.side_information
    assert all(category.interval is None for category in categories_of(story))
    text = Reader(render(story)).text
    assert "descriptive only, no guarantee" in text
    assert "hold simultaneously" not in text


def test_methods_without_proof_say_so(story: Story) -> None:
    unproven = replace(story, result=replace(story.result, guarantee="heuristic"))
    text = Reader(render(unproven)).text
    assert "No guarantee." in text
    assert "no matter when" not in text


def test_a_threshold_has_a_verdict_for_a_headline(tmp_path: Path) -> None:
    story = told(tmp_path, right, goal={"goal": "threshold", "value": 0.5})
    assert "at least 50%: certified pass" in Reader(render(story)).text


def test_a_run_under_way_has_a_page(tmp_path: Path) -> None:
    story = told(tmp_path, right, max_calls=20)
    text = Reader(render(replace(story, certificate=None, asked=()))).text
    assert "spent its budget" in text
    assert "None yet" in text


def test_a_certificate_that_says_something_else_is_pointed_out(story: Story) -> None:
    assert "newest certificate says" not in render(story)
    assert story.certificate is not None
    stated = {**story.certificate["result"], "upper": 0.99}
    text = Reader(render(replace(story, certificate={**story.certificate, "result": stated}))).text
    assert "newest certificate says upper 0.99." in text


def test_draws_that_do_not_fit_their_plan_are_refused(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    run_id = stored_run(store, pool(), right)
    last = store.draws(run_id)[-1].index
    store.add_draws(run_id, [Draw(last + 1, 0, 0.5)])
    with pytest.raises(CerevalError, match="do not fit its plan"):
        read_story(store, run_id)
    store.close()


def test_one_count_of_answers(tmp_path: Path) -> None:
    story = told(tmp_path, right)
    text = " ".join(Reader(render(story)).text.split())
    answers = len([one for one in story.asked if one.answer is not None])
    assert answers > story.result.n_evaluated
    assert text.count(f"{answers} answers, of which {story.result.n_evaluated} count") == 1


def test_a_run_that_is_left_has_a_certificate_and_a_way_on(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    run_id = stored_run(store, pool(), right, most=24)
    page = page_of(store, run_id[:6])
    store.close()
    text = Reader(page.html).text
    assert page.run_id == run_id
    assert page.result["stopped"] == "running"
    assert f"cereval resume {run_id}" in text
    assert "Save the certificate" in text


def test_a_page_makes_its_folder_and_a_place_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    write_page(tmp_path / "new" / "page.html", "half a pair: \ud800")
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == "half a pair: ?"
    with pytest.raises(BadFile, match="name another file"):
        write_page(tmp_path / "new" / "page.html" / "page.html", "")


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cereval.cli.main import main

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store = open_store(url)
    run_id = stored_run(store, pool(), right)
    store.close()
    assert main(["report", run_id[:6], "--store", url, "-o", str(tmp_path / "new" / "page.html")]) == 0
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "wrote" in capsys.readouterr().out


def test_an_unknown_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cereval.cli.main import main

    assert main(["report", "nothing", "--store", f"sqlite:///{tmp_path / 'none.db'}"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_precision_costs(story: Story, tmp_path: Path) -> None:
    found = precision_costs(story)
    assert found is not None
    pictures, table = found
    rows = {row[0]: row[1:] for row in table.rows}
    result = story.result.as_dict()
    assert table.header == ("precision", "calls", "cost")
    assert list(rows) == sorted(rows, key=lambda name: -float(name[1:-1]))
    reached = rows[f"±{rounded(result['half_width'])}"]
    assert reached == [f"{result['n_evaluated']:,}", money(result["n_evaluated"] * 0.001)]
    counts = [int(calls.removeprefix("~")) for calls, _ in rows.values()]
    assert counts == sorted(counts)
    assert counts[-1] < 300
    assert sum(calls.startswith("~") for calls, _ in rows.values()) == len(rows) - 1
    assert all("$0." in picture and "±5%" in picture for picture in pictures.values())
    assert "What precision costs" in render(story)
    few = told(tmp_path, right, max_calls=15)
    assert precision_costs(few) is None


def test_the_price_by_batch_stands_beside_the_live_one(story: Story) -> None:
    plan = story.plan
    assert plan is not None
    for name, header in (("openai/gpt-5-mini", 4), ("openai/unheard-of", 3)):
        found = precision_costs(replace(story, plan=replace(plan, candidates=named(name))))
        assert found is not None
        assert len(found[1].header) == header
        if header == 4:
            live, batch = found[1].rows[0][2:]
            assert float(batch.lstrip("~$")) == pytest.approx(float(live.lstrip("~$")) / 2, abs=1e-4)
