"""The demo, as somebody runs it who has just cloned the repository."""

import os
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[1] / "demo.py"


def test_three_remedies_are_tried_and_one_is_done_once(tmp_path: Path) -> None:
    clean = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}

    done = subprocess.run(
        [sys.executable, str(DEMO)], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=200, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Three remedies, one done, once." in done.stdout
    assert done.stdout.count("\ndone: roll back, v41, for INC-7-fork-") == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == [], "the demo cleans up"
