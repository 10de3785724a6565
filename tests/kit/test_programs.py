"""The small programs that pods run, run here by the same interpreters: merging of configuration, commands of a Job."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from openstack_operator.kit import commands, config, first_sync, probes


def merge(tmp_path: Path, parts: dict[str, str], defaults: dict[str, str] | None = None) -> dict[str, str]:
    """Runs the init container's script over these parts; returns the merged files."""
    source, merged = tmp_path / "source", tmp_path / "merged"
    for directory in (source, merged):
        directory.mkdir()
    for name, text in parts.items():
        (source / name).write_text(text)
    (merged / "left-over").write_text("from an earlier run of the container")
    environment = {"PATH": os.environ["PATH"], "DEFAULTS": ""}
    if defaults is not None:
        image = tmp_path / "image"
        image.mkdir()
        for name, text in defaults.items():
            (image / name).write_text(text)
        environment["DEFAULTS"] = str(image)
    script = config.MERGE.replace(config.MERGED, str(merged)).replace(config.SOURCE, str(source))
    subprocess.run(["sh", "-c", script], env=environment, check=True)
    return {path.name: path.read_text() for path in merged.iterdir()}


def test_parts_are_joined_in_the_order_of_their_numbers_and_whole_files_are_copied(tmp_path: Path) -> None:
    parts = {
        "a.conf.90-custom": "users",
        "a.conf.10-generated": "generated\n",
        "a.conf.20-secret": "secret\n",
        "a-b.conf.10-generated": "other\n",
        "uwsgi.ini": "[uwsgi]\n",
    }
    assert merge(tmp_path, parts) == {
        "a.conf": "generated\n\nsecret\n\nusers\n",
        "a-b.conf": "other\n\n",
        "uwsgi.ini": "[uwsgi]\n",
    }


def test_files_of_the_image_are_there_unless_a_part_replaces_them(tmp_path: Path) -> None:
    found = merge(tmp_path, {"a.conf.10-generated": "ours\n"}, {"a.conf": "image\n", "paste.ini": "image\n"})
    assert found == {"a.conf": "ours\n\n", "paste.ini": "image\n"}


def test_pods_without_any_file_start(tmp_path: Path) -> None:
    assert merge(tmp_path, {}) == {}


def run_commands(tmp_path: Path, *plan: commands.Command) -> subprocess.CompletedProcess[str]:
    module = tmp_path / "program.py"
    module.write_text(
        "import os, sys\n"
        "def main():\n"
        "    print(sys.argv[1:], os.environ.get('PASSWORD'), flush=True)\n"
        "    if 'say' in sys.argv: sys.exit('it does not work')\n"
        "    if 'crash' in sys.argv: raise ValueError('crashed')\n"
        "    if 'kill' in sys.argv: os.kill(os.getpid(), 9)\n"
        "    return int(sys.argv[1])\n"
    )
    script = tmp_path / commands.NAME
    script.write_text(commands.SCRIPT)
    (tmp_path / first_sync.NAME).write_text(
        f"def note(what, where): print(what, *where, file=open({str(tmp_path / 'schema')!r}, 'a'))\n"
        "def begin(*where): note('begin', where)\n"
        "def end(*where): note('end', where)\n"
    )
    _, _, *arguments = commands.line("program:main", *plan, conf="/a.conf", section="a_database")
    environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, str(script), *arguments], env=environment, check=False, capture_output=True, text=True
    )


def test_commands_run_one_after_the_other_and_the_first_failure_ends_them(tmp_path: Path) -> None:
    done = run_commands(
        tmp_path,
        commands.Command(("p", "0")),
        commands.Command(("p", "3"), ok=(0, 3)),
        commands.Command(("p", "4")),
        commands.Command(("p", "0", "never")),
    )
    assert done.returncode == 4
    assert done.stdout.splitlines() == [
        "running: p 0",
        "['0'] None",
        "running: p 3",
        "['3'] None",
        "running: p 4",
        "['4'] None",
    ]
    assert done.stderr == "", "the program's own last line is the one that people see"
    assert (tmp_path / "schema").read_text() == "begin /a.conf a_database\n", "its schema is not whole"


def test_a_password_is_in_the_environment_of_its_command_alone(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("$%@/#+\"':-")
    files = {"PASSWORD": str(tmp_path / "password")}
    done = run_commands(tmp_path, commands.Command(("p", "0"), files=files), commands.Command(("p", "0", "next")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1::2] == ["['0'] $%@/#+\"':-", "['0', 'next'] None"]
    assert (tmp_path / "schema").read_text() == "begin /a.conf a_database\nend /a.conf a_database\n"


def test_a_server_is_greeted_by_when_it_speaks_not_when_it_listens() -> None:
    with socket.create_server(("localhost", 0)) as server:
        waiting = subprocess.Popen(probes.greeted(server.getsockname()[1])["exec"]["command"])
        client, _ = server.accept()
        assert waiting.poll() is None
        client.close()
        client, _ = server.accept()
        assert waiting.poll() is None, "a connection that ends without a word is none"
        with client:
            client.sendall(b"J")
            assert waiting.wait(10) == 0


def test_what_a_command_said_last_is_the_end_of_the_log(tmp_path: Path) -> None:
    done = run_commands(tmp_path, commands.Command(("p", "0", "say")))
    assert (done.returncode, done.stderr.splitlines()) == (1, ["it does not work"])
    done = run_commands(tmp_path, commands.Command(("p", "0", "crash")))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "ValueError: crashed")
    done = run_commands(tmp_path, commands.Command(("p", "0", "kill")))
    assert (done.returncode, done.stderr.splitlines()) == (1, ["p was ended by signal 9"])
