"""Write JUnit XML, which every CI shows: one test for the run, which fails unless its goal is certified."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from cereval.integrations.exports import Exported
from cereval.records import FAILED, PASSED
from cereval.text import printable


def text(found: Exported, **_: str) -> str:
    """Write one test: passed, failed (certified fail), or failed because the budget ended before it was decided."""
    result, code = found.result, found.result.exit_code
    counts = {"tests": "1", "failures": str(int(code != PASSED)), "errors": "0", "skipped": "0"}
    suite = Element("testsuite", {"name": "cereval", "timestamp": found.changed[:19], **counts})
    name = printable(f"{found.model} on {found.story.data}: {result.goal.get('goal', found.story.kind.name)}")
    case = SubElement(suite, "testcase", {"classname": "cereval", "name": name, "time": "0"})
    facts = {
        "answer": result.headline(),
        "decision": result.decision or result.stopped,
        "confidence": result.confidence,
        "run_id": found.run_id,
        "certificate": found.digest,
        **found.numbers(),
    }
    properties = SubElement(case, "properties")
    for key, value in facts.items():
        SubElement(properties, "property", {"name": key, "value": printable(str(value))})
    if code != PASSED:
        kind = "certified fail" if code == FAILED else "undecided"
        SubElement(case, "failure", {"type": kind, "message": printable(result.headline())})
    suites = Element("testsuites", counts)
    suites.append(suite)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"
