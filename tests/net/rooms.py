"""rooms.py: the hosts of tests/net/hosts themselves: what they share and what not, and that nothing is left of them."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

HOSTS = pathlib.Path(__file__).resolve().parent / "hosts"


def start(*arguments, **options):
    """A room in its own session, so that what is left of it can be found; SIGINT has its default action, as in a terminal."""
    return subprocess.Popen(["env", "--default-signal=INT", HOSTS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, **options)


def run(*arguments, code=0, **options):
    with start(*arguments, **options) as room:
        output, errors = room.communicate()
    assert room.returncode == code, (arguments, room.returncode, output, errors)
    return output + errors


def on(host, command):
    return subprocess.run(["hosts-on", host, command], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def inside(outside_port):
    """Runs on host1 of three."""
    names = [on(f"host{i}", "hostname") for i in (1, 2, 3)]
    assert names == ["host1", "host2", "host3"] and socket.gethostname() == "host1", names
    for place in "/tmp", "/dev/shm":
        for i in 1, 2, 3:
            on(f"host{i}", f"echo {i} > {place}/mine")
        assert [on(f"host{i}", f"cat {place}/mine") for i in (1, 2, 3)] == ["1", "2", "3"], place
    cpus = [on(f"host{i}", "taskset -cp $$ | sed 's/.*: //'; getconf _NPROCESSORS_ONLN").split() for i in (1, 2, 3)]
    assert all(int(count) == 1 for listed, count in cpus if listed.isdigit()), cpus
    if os.cpu_count() >= 3:
        assert len({listed for listed, _ in cpus}) == 3, cpus
    # As over ssh: a shell reads the words once more, and the caller's variables stay behind.
    os.environ["NOT_SENT"] = "sent"
    assert on("host2", "echo \"a  b\" $((1 + 1)) ${NOT_SENT:-not sent}") == "a  b 2 not sent"
    wrong = subprocess.run(["hosts-on", "host4", "true"], stderr=subprocess.PIPE, text=True, check=False)
    assert wrong.returncode == 255 and "no host \"host4\"" in wrong.stderr, wrong
    # Each reaches the others, and no network outside.
    with socket.create_server(("", 7702)):
        for host in "host2", "host3":
            on(host, "exec 3<>/dev/tcp/host1/7702")
    for address in [("127.0.0.1", int(outside_port)), ("192.0.2.1", 80)]:
        try:
            socket.create_connection(address, timeout=5)
        except OSError as error:
            assert not isinstance(error, TimeoutError), address
        else:
            raise AssertionError(f"{address} outside can be reached")


def hosts_of_their_own():
    with socket.create_server(("127.0.0.1", 0)) as outside:
        run("3", "--", sys.executable, __file__, "inside", str(outside.getsockname()[1]))


def the_exit_code_and_the_output():
    assert run("1", "--", "bash", "-c", "echo said; echo failed >&2; exit 7", code=7) == "said\nfailed\n"


def two_at_once():
    """Both have a host1 with the same address, and neither hears of the other."""
    script = "echo $0 > /tmp/mine; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; hosts-on host2 hostname; done; cat /tmp/mine; ip neigh | wc -l"
    rooms = [start("2", "--", "bash", "-c", script, name) for name in ("first", "second")]
    said = [room.communicate() for room in rooms]
    for name, room, (output, errors) in zip(("first", "second"), rooms, said):
        assert room.returncode == 0 and output == "host2\n" * 8 + name + "\n0\n", (name, output, errors)


def processes_with(word):
    """The command lines of processes that have the word, but for this one's."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def machine():
    """What hosts could leave on this machine."""
    return (sorted(name for _, name in socket.if_nameindex()), sorted(pathlib.Path("/run").iterdir()),
            pathlib.Path("/proc/self/mounts").read_text(), socket.gethostname())


def ended(how, code, before):
    word = str(31400000 + os.getpid() % 100000)
    room = start("2", "--relay", "--", "bash", "-c", f"hosts-on host2 sleep {word} & echo begun; sleep {word}")
    assert room.stdout.readline() == "begun\n"
    assert len(processes_with(word)) >= 2
    room.send_signal(how)
    room.communicate()
    assert room.returncode == code, (how, room.returncode)
    for _ in range(3000):
        if not processes_with(word):
            break
        time.sleep(0.02)
    assert not processes_with(word), processes_with(word)
    assert machine() == before


def nothing_is_left():
    before = machine()
    ended(signal.SIGINT, 130, before)
    ended(signal.SIGTERM, 143, before)
    ended(signal.SIGKILL, -9, before)
    run("1", "--", "bash", "-c", "setsid sleep 31499999 & exit 3", code=3)
    assert not processes_with("31499999")
    assert machine() == before


def wrong_options():
    for words, said in [([], "expected 1 to 64 hosts"), (["0", "--", "true"], "1 to 64"), (["65", "--", "true"], "1 to 64"), (["2"], "a COMMAND"),
                        (["2", "--rate", "0", "--", "true"], "1 to 999999 Mbit/s, received \"0\""), (["2", "--loss", "100", "--", "true"], "0 to 99"),
                        (["2", "--delay", "-1", "--", "true"], "milliseconds, received \"-1\""), (["2", "--delay"], "expected a number"),
                        (["2", "--nonsense", "--", "true"], "unexpected \"--nonsense\""), (["2", "true"], "stands behind --")]:
        got = run(*words, code=2)
        assert said in got, (words, got)
    assert "exit: COMMAND's" in run("--help").replace("Exit", "exit")


def a_machine_without_namespaces():
    """Where unshare is refused: a sentence with the reason, and the exit code of a skip."""
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder) / "unshare"
        fake.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
        fake.chmod(0o755)
        got = run("2", "--", "true", code=77, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    assert "unshare failed: Operation not permitted" in got and got.startswith("hosts: "), got


CASES = [wrong_options, a_machine_without_namespaces, hosts_of_their_own, the_exit_code_and_the_output, two_at_once, nothing_is_left]


def main():
    if len(sys.argv) == 3:
        inside(sys.argv[2])
        return
    if subprocess.call([HOSTS, "1", "--", "true"]) == 77:
        sys.exit(77)
    ran = 0
    for case in CASES:
        case()
        ran += 1
        print(f"{case.__name__}: right", flush=True)
    assert ran == 6, ran


main()
