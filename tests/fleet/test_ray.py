"""A small fleet on a local Ray cluster: a killed worker changes nothing. Skipped, and says so, without Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.planted import plant

pytest.importorskip("ray", reason="pip install 'cereval[ray]'")

DISTURBED = """
import json, os, signal, sys, threading, time
from pathlib import Path
import cereval
from cereval.fleet.workers import cluster
from cereval.store.base import opened_store

fleet, calm, stormy = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]

def certificates(url):
    with opened_store(url) as store:
        return {run.run_id: store.certificates(run.run_id)[-1] for run in store.runs()}

def kill():
    answers = 0
    while answers < 20:
        time.sleep(0.05)
        with opened_store(stormy, create=True) as store:
            answers = sum(run.answers for run in store.runs())
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(b"ray::scripted"):
                os.kill(int(folder.name), signal.SIGKILL)
                killed.append(folder.name)
        except OSError:
            pass

killed = []
cereval.run_fleet({**fleet, "workers": 1}, store=calm)
thread = threading.Thread(target=kill)
thread.start()
with cluster(2):
    done = cereval.run_fleet(fleet, on="ray", store=stormy)
thread.join()
same = certificates(calm) == certificates(stormy)
print(json.dumps({"same": same, "code": done.exit_code, "runs": len(done.runs), "killed": len(killed)}))
"""


def test_a_killed_ray_worker_changes_nothing(tmp_path: Path) -> None:
    """In a process of its own: Ray leaves sockets and threads behind that the suite would object to."""
    data = tmp_path / "q.jsonl"
    rows = [{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(400)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    fleet = {"models": ["scripted/0.6", "scripted/0.8"], "data": str(data), "eps": 0.06, "seed": 1}
    stores = [f"sqlite:///{tmp_path}/{name}.db" for name in ("calm", "stormy")]
    done = subprocess.run(
        [sys.executable, "-c", DISTURBED, json.dumps(fleet), *stores],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts.pop("killed") >= 1
    assert facts == {"same": True, "code": 0, "runs": 2}


def test_no_file_of_the_folder_stands_in_for_a_module_of_rays_workers(tmp_path: Path) -> None:
    rows = [{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(100)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    fleet = {"models": ["scripted/0.9"], "data": "q.jsonl", "eps": 0.2, "scorer": "exact"}
    (tmp_path / "fleet.yaml").write_text(json.dumps(fleet), encoding="utf-8")
    planted = plant(tmp_path, standard=False)
    command = [sys.executable, "-m", "cereval", "fleet", "fleet.yaml", "--on", "ray", "--display", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert not planted.exists()
