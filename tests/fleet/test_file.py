"""What a fleet's file says, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cereval.errors import CerevalError, InvalidInput, Untrusted
from cereval.fleet.file import read_fleet
from cereval.fleet.limits import ServerLimits
from cereval.settings import Candidate

BOTH: dict[str, Any] = {"models": ["scripted/0.6", "scripted/0.7"], "data": ["a.jsonl", "b.jsonl"]}


def test_models_times_data_sets() -> None:
    entries = read_fleet({**BOTH, "eps": 0.05, "scorer": "contains"}).entries
    assert [(entry.model, entry.data) for entry in entries] == [
        (model, data) for model in BOTH["models"] for data in BOTH["data"]
    ]
    assert all(entry.goal == {"goal": "estimate", "eps": 0.05} for entry in entries)
    assert all(entry.settings == {"scorer": "contains"} for entry in entries)


def test_lists_and_settings_of_an_entry() -> None:
    fleet = read_fleet(
        {
            "models": [{"model": "openai/m", "price-in": 1.0}, "openai/n"],
            "data": [{"data": "a.jsonl", "scorer": "exact", "priority": 2}, "b.jsonl"],
            "base_url": ["http://one/v1", "http://two/v1"],
            "scorer": ["contains", "numeric"],
            "eps": [0.05, 0.1],
            "max_usd": [1.0, 2.0],
        }
    )
    first, second, third, fourth = fleet.entries
    assert first.settings == {"scorer": "exact", "max_usd": 1.0}
    assert first.asked == (Candidate("openai/m", base_url="http://one/v1", price_in=1.0),)
    assert (first.priority, second.priority) == (2, 0)
    assert (second.settings["scorer"], second.goal["eps"], second.settings["max_usd"]) == (
        "numeric",
        0.1,
        2.0,
    )
    assert third.asked == fourth.asked == (Candidate("openai/n", base_url="http://two/v1"),)
    assert fleet.max_usd is None


def test_goals_of_every_kind() -> None:
    goals = [
        "run",
        {"goal": "gate", "min": 0.5},
        {"goal": "compare", "models": ["scripted/0.6", "scripted/0.7"], "data": "a.jsonl"},
        {"goal": "not-worse", "eps": 0.1, "baseline": "scripted/0.6", "data": ["b.jsonl"]},
        {"goal": "top", "k": 1, "data": "a.jsonl"},
        {"goal": "tasks", "eps": 0.1, "models": "scripted/0.7", "data": "a.jsonl"},
    ]
    entries = read_fleet({**BOTH, "eps": 0.05, "goals": goals}).entries
    names = [entry.goal["goal"] for entry in entries]
    assert names == ["estimate"] * 4 + ["threshold"] * 4 + ["sign", "not-worse", "top", "macro"]
    assert entries[4].goal["value"] == 0.5
    assert entries[9].models == ("scripted/0.7", "scripted/0.6")
    assert entries[10].models == ("scripted/0.6", "scripted/0.7")


def test_every_run_has_a_seed_of_its_own() -> None:
    def seeds(fleet: dict[str, Any]) -> dict[tuple[str, str], Any]:
        return {(one.model, one.data): one.settings.get("seed") for one in read_fleet(fleet).entries}

    assert set(seeds(BOTH).values()) == {None}, "drawn by each run, and recorded in its plan"
    given = seeds({**BOTH, "seed": 1})
    assert len(set(given.values())) == 4
    assert given.items() <= seeds({**BOTH, "seed": 1, "models": ["scripted/0.9", *BOTH["models"]]}).items()
    assert not given.items() & seeds({**BOTH, "seed": 2}).items()


def test_limits_of_servers() -> None:
    shared = read_fleet({**BOTH, "limits": {"connections": 4}}).limits
    assert shared == {"*": ServerLimits(4)}
    apart = read_fleet({**BOTH, "limits": {"http://h/v1/": {"requests_per_minute": 60}}}).limits
    assert apart == {"http://h/v1": ServerLimits(requests_per_minute=60)}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"data": "a"}, "models in the fleet must be given"),
        ({"models": "m"}, "data in the fleet must be given"),
        ({**BOTH, "epz": 1}, "option in the fleet must be one .*did you mean 'eps'.* got 'epz'"),
        ({**BOTH, "eps": "wide"}, r"eps in the fleet must be a number in \(0, 1\), or auto, got 'wide'"),
        ({**BOTH, "eps": [0.1]}, r"one for each data set \(2\)"),
        ({**BOTH, "base_url": ["x"]}, r"one for each model \(2\)"),
        ({**BOTH, "max_usd": -1}, "max_usd in the fleet must be a number > 0, got -1"),
        ({**BOTH, "max_calls": 1.5}, "max_calls in the fleet must be a whole number >= 1, got 1.5"),
        ({**BOTH, "seed": True}, "seed in the fleet must be a whole number"),
        ({**BOTH, "goals": "ramk"}, "goal in the fleet must be one of run, gate"),
        (
            {**BOTH, "goals": {"goal": "gate"}},
            r"min in the fleet \(gate: scripted/0.6 on a.jsonl\) must be given",
        ),
        ({**BOTH, "goals": {"goal": "gate", "min": 5}}, r"min in the fleet \(gate: .* must be a number in"),
        ({**BOTH, "goals": {"goal": "top", "best": 1}}, "top with parameters of its own"),
        ({**BOTH, "goals": {"goal": "run", "eps": 2}}, r"eps in the fleet \(run: .* must be a number in"),
        ({**BOTH, "confidence": 3}, r"confidence in the fleet must be a number in \(0, 1\), got 3"),
        ({**BOTH, "min": 0.5, "at-least": 0.6}, "at-least in the fleet must be left out where min is given"),
        ({**BOTH, "goals": {"goal": "run", "models": "other"}}, "some of the fleet's"),
        ({"models": list("abc"), "data": "d", "goals": "compare"}, "two, or a `baseline`"),
        ({**BOTH, "models": ["openai/m", "openai/m"]}, "made of runs that differ"),
        (
            {**BOTH, "models": ["scripted/0.6", "opnai/m"]},
            r"model in the fleet \(run: opnai/m on a.jsonl\) must be one of openai/NAME, .*did you mean openai/",
        ),
        (
            {**BOTH, "scorer": "exat"},
            r"scorer in the fleet \(run: .* must be a known name \(did you mean 'exact'",
        ),
        ({**BOTH, "models": [{"base_url": "x"}]}, "model in the fleet must be a name"),
        (
            {**BOTH, "limits": {"connections": 0}},
            "connections in limits in the fleet must be a whole number >= 1",
        ),
        ({**BOTH, "limits": {"conections": 1}}, "did you mean 'connections'"),
        ({**BOTH, "model": "m"}, "model in the fleet must be given as `models`"),
        ({**BOTH, "data": [{"data": "a", "store": "x"}]}, "must be left out: it is the fleet's"),
        (
            {**BOTH, "eps": 0.1, "at_least": 0.5},
            "eps in the fleet .* must be left out where min is given",
        ),
        ({**BOTH, "limits": 5}, "limits in the fleet must be"),
        ({**BOTH, "models": [{"model": "m", "priority": "high"}]}, "priority in the fleet must be a number"),
    ],
)
def test_bad_files_are_told_in_one_line(values: dict[str, Any], said: str) -> None:
    with pytest.raises(CerevalError, match=said) as caught:
        read_fleet(values)
    assert "\n" not in str(caught.value)


def test_models_of_one_run_have_prompts_and_addresses_of_their_own() -> None:
    models = [
        {"model": "openai/m", "base_url": "http://one/v1", "system": "Be brief."},
        {"model": "openai/m", "base_url": "http://two/v1", "name": "plain"},
    ]
    (entry,) = read_fleet({"models": models, "data": "d", "goals": "compare"}).entries
    assert entry.asked == (
        Candidate("openai/m", base_url="http://one/v1", system="Be brief."),
        Candidate("openai/m", base_url="http://two/v1", name="plain"),
    )
    assert entry.models == ("openai/m", "plain")
    goal = {"goal": "compare", "baseline": "plain"}
    (entry,) = read_fleet({"models": models, "data": "d", "goals": goal}).entries
    assert entry.models == ("openai/m", "plain")


def test_models_of_one_run_share_what_is_no_part_of_them() -> None:
    models = [{"model": "openai/m", "scorer": "exact"}, {"model": "openai/n", "scorer": "contains"}]
    with pytest.raises(InvalidInput, match="where both are asked in one run"):
        read_fleet({"models": models, "data": "d", "goals": "compare"})


def test_a_goal_names_models_that_can_be_told_apart() -> None:
    models = [{"model": "openai/m", "system": "A"}, {"model": "openai/m", "system": "B"}]
    goal = {"goal": "run", "models": "openai/m"}
    with pytest.raises(InvalidInput, match="give each a `name`"):
        read_fleet({"models": models, "data": "d", "goals": goal})


def test_a_file_reads_and_writes_elsewhere_only_where_it_is_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "fleets"
    folder.mkdir()
    (tmp_path / "key").write_text("secret")
    (folder / "brief.txt").write_text("Be brief.")
    file = folder / "fleet.yaml"
    file.write_text("models: scripted/0.6\ndata: d.jsonl\nsystem: '@brief.txt'\n")
    (entry,) = read_fleet(file).entries
    assert entry.asked[0].options == {"system": f"@{folder}/brief.txt"}
    for line, says in (
        ("system: '@../key'", "read and send .*key"),
        ("system: ['@../key']", "read and send .*key"),
        (f"judge_template: '@{tmp_path}/key'", "read and send .*key"),
        ("data: ../d.jsonl", "read and send .*d.jsonl"),
        ("store: postgresql://me:secret@host/db", r"keep answers in postgresql://me:\*\*\*@host/db"),
    ):
        data = "" if line.startswith("data") else "data: d.jsonl\n"
        file.write_text(f"models: scripted/0.6\n{data}{line}\n")
        with pytest.raises(Untrusted, match=says):
            read_fleet(file)
    assert read_fleet(file, typed_store=True).entries, "another store was typed"
    assert read_fleet(file, trust=True).store == "postgresql://me:secret@host/db"
    assert read_fleet(file).entries, "it is remembered"


def test_a_file_is_not_trusted_as_typed(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    (tmp_path / "d.jsonl").write_text('{"question": "1?", "answer": "1"}\n')
    file.write_text("models: python:os:getcwd\ndata: d.jsonl\n")
    with pytest.raises(Untrusted, match=r"the fleet file .* would run python:os:getcwd"):
        read_fleet(file)
    assert read_fleet(file, trust=True).entries[0].data == str(tmp_path / "d.jsonl"), (
        "looked for beside the file"
    )
    file.write_text("- 1\n")
    with pytest.raises(CerevalError, match="must hold a fleet"):
        read_fleet(file)


def test_data_whose_name_no_file_can_have_is_no_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(f"models: scripted/0.6\ndata: {'x' * 5000}\neps: 0.2\n")
    assert [entry.data for entry in read_fleet(tmp_path / "fleet.yaml").entries] == ["x" * 5000]
