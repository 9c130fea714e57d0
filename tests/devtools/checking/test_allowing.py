"""What an author answers for: `# loom: allow[rule] reason`."""

from __future__ import annotations

import pytest

from loom.devtools.checking.findings import RULES
from tests.devtools.checking.checking import found, report

FLOW = "import time\n@loom.flow\nasync def f(ctx):\n"


@pytest.mark.parametrize(
    "lines",
    [
        "    return time.time()  # loom: allow[clock] measured for people only\n",
        "    # loom: allow[clock] measured for people only\n    return time.time()\n",
        "    return time.time()  #loom:allow[ clock ] so\n",
        "    print(time.time())  # loom: allow[clock, log] for people\n",
    ],
)
def test_a_finding_with_a_reason_is_allowed(lines: str) -> None:
    assert found(FLOW + lines) == []


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("# loom: allow[clock]", "gives no reason"),
        ("# loom: allow because", "does not say which rule"),
        ("# loom: allow[clocks] because", "there is no rule `clocks`"),
    ],
)
def test_a_comment_that_allows_nothing_is_a_finding_beside_the_one_it_is_for(comment: str, said: str) -> None:
    result = report(f"{FLOW}    return time.time()  {comment}\n")

    assert [each.rule for each in result.findings] == ["clock", "allow"]
    assert said in result.findings[1].message


def test_a_comment_for_nothing_is_a_finding() -> None:
    assert found(f"{FLOW}    return ctx.now()  # loom: allow[clock] because\n") == ["allow:5"]


def test_a_comment_is_not_unused_when_its_rule_is_not_applied() -> None:
    text = f"{FLOW}    return time.time()  # loom: allow[clock] because\n"

    assert report(text, rules=set(RULES) - {"clock"}).findings == ()


def test_a_comment_is_not_unused_where_only_a_strict_run_can_know() -> None:
    assert found(f"{FLOW}    return CLOCKS['wall']()  # loom: allow[clock] for people only\n") == []


def test_a_comment_two_lines_above_or_in_a_text_allows_nothing() -> None:
    assert found(f"{FLOW}    # loom: allow[clock] far\n\n    return time.time()\n") == ["allow:5", "clock:7"]
    assert found(f"{FLOW}    '# loom: allow[clock] text'; return time.time()\n") == ["clock:5"]


@pytest.mark.parametrize("rule", ["allow", "syntax"])
def test_what_is_wrong_with_comments_and_files_cannot_be_allowed(rule: str) -> None:
    assert found(f"x = 1  # loom: allow[{rule}] because\n") == ["allow:2"]


def test_it_works_in_a_helper_of_another_module() -> None:
    text = "from helpers import now\n@loom.flow\nasync def f(ctx):\n    return now()\n"
    helper = "import time\ndef now():\n    return time.time()  # loom: allow[clock] for people only\n"

    assert found(text, helpers=helper) == []
