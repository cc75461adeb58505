"""`cereval plan` end to end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cereval.cli.main import main


def planned(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert main(["plan", "--json", *flags]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def methods(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in plan["methods"]}


def test_json_has_every_method_the_bounds_and_the_cost(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(
        capsys, "--items", "5000", "--eps", "0.02", "--mean", "0.5", "--explained", "0.4", "--price", "0.01"
    )
    rows = methods(plan)
    assert set(rows) == {"static", "hoeffding", "normal", "exact", "seq", "uniform", "active"}
    assert rows["uniform"]["basis"] == "measured"
    assert rows["uniform"]["cost_usd"] == pytest.approx(rows["uniform"]["calls"] * 0.01)
    assert rows["normal"]["calls"] == 1623
    assert plan["bounds"]["stopping_time"] == 24689
    assert plan["bounds"]["upper"] > plan["bounds"]["order"]
    assert plan["partition"] is None


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        (["--eps", "0.05"], "eps"),
        (["--confidence", "0.99"], "confidence"),
        (["--variance", "0.1"], "variance"),
        (["--mean", "0.9"], "mean"),
        (["--target", "expected"], "target"),
    ],
)
def test_every_flag_changes_the_plan(capsys: pytest.CaptureFixture[str], flags: list[str], key: str) -> None:
    base, changed = planned(capsys, "--items", "3000"), planned(capsys, "--items", "3000", *flags)
    assert base[key] != changed[key]
    assert methods(base)["uniform"]["calls"] != methods(changed)["uniform"]["calls"]


def test_groups_give_the_saving_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--items", "5000", "--groups", "0.5:0.02,0.5:0.02", "--eps", "0.05")
    assert plan["partition"]["benign"] is True
    assert plan["partition"]["rho"] == pytest.approx(0.298, abs=0.001)
    assert "oracle" in methods(plan)


def test_a_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--items", "5000", "--at-least", "0.8", "--mean", "0.85")
    assert plan["threshold"] == 0.8
    assert plan["eps"] is None
    near = planned(capsys, "--items", "5000", "--threshold", "0.8", "--mean", "0.82")
    assert methods(near)["uniform"]["calls"] > methods(plan)["uniform"]["calls"]


def test_tables_for_people_and_warnings_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--items", "500", "--eps", "0.02", "--target", "population", "--price", "0.5"]) == 0
    captured = capsys.readouterr()
    for word in ("uniform", "measured", "needs", "theorem 4.2", "cost"):
        assert word in captured.out
    assert "500 items are too few" in captured.err
    assert "warning" not in captured.out


def test_questions_are_stated_back(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--items", "500", "--threshold", "0.8", "--mean", "0.9", "--groups", "0.9:0.02,0.1:0.25"])
    out = capsys.readouterr().out
    assert "95% confidence whether the mean is at least 80%" in out
    assert "expected mean 90%" in out
    assert "not benign" in out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--items", "0"], "items must be a whole number >= 1, got 0"),
        (["--items", "10", "--eps", "2"], "eps must be in (0, 1), got 2.0"),
        (
            ["--items", "10", "--confidence", "0"],
            "confidence must be a number in (0, 1), got 0.0",
        ),
        (["--items", "10", "--mean", "-1"], "mean must be a number in [0, 1], got -1.0"),
        (["--items", "10", "--explained", "1"], "explained must be a share in [0, 1), got 1.0"),
        (["--items", "10", "--price", "-1"], "--price must be a number >= 0 and at most 1e+100, got -1.0"),
        (["--items", "10", "--price", "1e308"], "at most 1e+100, got 1e+308"),
        (["--items", "10", "--groups", "a:b"], "--groups must be mass:variance pairs"),
        (["--items", "10", "--groups", "0.1:0.1"], "masses in --groups must be >= 0 with sum 1"),
        (["--items", "10", "--threshold", "0.5"], "mean must be given"),
        (["--items", "10", "--threshold", "0.5", "--mean", "0.6", "--eps", "0.1"], "--eps must be left out"),
    ],
)
def test_bad_flags_are_one_line_that_names_them(
    capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    assert main(["plan", *flags, "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert says in captured.err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--items", "9" * 400], "--items must be a whole number"),
        (["--items", "9" * 5000], "--items must be a whole number"),
        (
            ["--items", str(10**18), "--mean", "0.5", "--eps", "1e-7"],
            "--items must be a whole number in 1..1,000",
        ),
        (
            ["--items", "9", "--confidence", "0.9999999999999"],
            "--confidence must be at least 1e-12 away from 0 and 1",
        ),
        (["--items", "9", "--price", "1e308"], "--price must be a number >= 0 and at most 1e+100"),
    ],
)
def test_numbers_beyond_what_can_be_planned_for(
    capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    assert main(["plan", *flags]) == 1
    assert says in capsys.readouterr().err


def test_what_money_buys_live_and_by_batch(capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, "--items", "5000", "--usd", "20", "--price", "0.01", "--mean", "0.8")
    live, batch = found["buys"]
    assert (live["way"], live["calls"], batch["way"], batch["calls"]) == ("live", 2000, "batch", 4000)
    again = methods(planned(capsys, "--items", "5000", "--eps", str(live["eps"]), "--mean", "0.8"))
    assert again["uniform"]["calls"] == pytest.approx(2000, abs=2)
    assert found["usd"] == live["cost_usd"] == batch["cost_usd"]
    assert main(["plan", "--items", "5000", "--usd", "20", "--price", "0.01"]) == 0
    assert "--max-usd 20 --eps auto" in capsys.readouterr().out


def test_what_precision_costs_live_and_by_batch(capsys: pytest.CaptureFixture[str]) -> None:
    line = ("--items", "5000", "--mean", "0.5")
    found = planned(capsys, *line, "--model", "openai/gpt-4o")
    rows = {row["eps"]: row for row in found["frontier"]}
    assert rows[0.02]["calls"] == methods(found)["uniform"]["calls"]
    assert rows[0.01]["live_usd"] == pytest.approx(2 * rows[0.01]["batch_usd"])
    assert [row["calls"] for row in found["frontier"]] == sorted(row["calls"] for row in found["frontier"])
    assert main(["plan", *line, "--price", "0.01"]) == 0
    assert ["±2%", "~1,729", "$17.29", "$8.64"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]
    assert planned(capsys, *line[:2], "--mean", "0.9", "--at-least", "0.8")["frontier"] == []


def test_the_price_of_a_call_is_that_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    line = ("--items", "9000", "--usd", "5", "--tokens", "1000,100", "--model")
    known = planned(capsys, *line, "openai/gpt-4o")
    assert known["price_usd"] == pytest.approx((1000 * 2.5 + 100 * 10) / 1e6)
    assert known["batch_usd"] == pytest.approx(known["price_usd"] / 2)
    unsure = planned(capsys, *line, "deepseek/deepseek-chat")
    assert (unsure["batch_usd"], len(unsure["buys"])) == (None, 1)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--usd", "5"], "--usd must be given with --price or --model"),
        (["--usd", "-5", "--price", "1"], "--usd must be a number > 0"),
        (["--usd", "5", "--price", "1", "--eps", "0.1"], "--eps must be left out where --usd is given"),
        (["--usd", "5", "--model", "openai/unheard-of"], "--model must be one whose price is known"),
        (["--usd", "5", "--model", "openai/gpt-4o", "--price", "1"], "--price must be left out"),
        (["--usd", "5", "--price", "1", "--tokens", "5,5"], "--tokens must be left out without --model"),
        (["--model", "openai/gpt-4o", "--tokens", "5"], "--tokens must be two whole numbers"),
    ],
)
def test_what_money_cannot_be_planned_with(
    capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    assert main(["plan", "--items", "100", *flags]) == 1
    assert says in capsys.readouterr().err
