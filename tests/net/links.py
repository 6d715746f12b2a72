"""links.py: what the links between the hosts of tests/net/hosts do to packets and to messages of MPI.

Each case runs on the first of some hosts (links.py CASE). Of times only lower bounds are checked: a busy machine makes nothing fail."""
import contextlib
import json
import pathlib
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PINGPONG = pathlib.Path("net_pingpong").resolve()


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def packets(to, count, expected=None, seconds=60.0, silence=60.0):
    """Sends packets from here; returns (came, out of order, least ms, mean ms). Waits until `expected` have come, for some seconds, or until
    none has come for `silence` seconds after the last."""
    command = ["hosts-on", to, f"{sys.executable} {HERE}/packets.py receive {count if expected is None else expected} {seconds} {silence}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout.readline() == "ready\n"
        run(sys.executable, f"{HERE}/packets.py", "send", to, str(count))
        came, behind, least, mean = receiver.stdout.read().split()
    return int(came), int(behind), float(least), float(mean)


def pingpong(trips, count):
    """(hosts, right trips, ms of the fastest trip)"""
    words = run("mpirun.openmpi", "-n", "2", str(PINGPONG), str(trips), str(count)).split()
    assert words[0::2][:1] == ["hosts"] and words[3::2] == ["right", "fastest", "all"], words
    return words[1:3], int(words[4]), float(words[6])


def link_bytes(host):
    """What the host has sent."""
    links = json.loads(run("hosts-on", host, "ip -json -s link show eth0"))
    return links[0]["stats64"]["tx"]["bytes"]


def counts():
    return {name: int(value) for name, value in (line.split() for line in run("hosts-link", "counts").splitlines())}


def whole():
    """A plain link: everything comes, in its order, and MPI's messages go over it and over no other link."""
    assert packets("host2", 2000)[:2] == (2000, 0)
    before = [link_bytes(host) for host in ("host1", "host2", "host3")]
    hosts, right, fastest = pingpong(10, 1000000)
    first, second, third = (link_bytes(host) - b for host, b in zip(("host1", "host2", "host3"), before))
    assert hosts == ["host1", "host2"] and right == 10
    for sent in first, second:
        assert 10 * 1000000 <= sent < 12 * 1000000, sent
    assert third < 100000, third
    # At 16 Mbit/s it takes longer (narrow). The fastest of ten, on however busy a machine.
    assert fastest < 900, fastest


def narrow():
    """16 Mbit/s, of which the first 64 KiB of each direction may go at once: 2 x 1 MB take 1 s less 66 ms. The first of two trips also
    waits for MPI's connection, the fastest does not."""
    hosts, right, fastest = pingpong(2, 1000000)
    assert hosts == ["host1", "host2"] and right == 2
    assert fastest >= 930, fastest
    shaped = json.loads(run("tc", "-json", "-s", "qdisc", "show", "dev", "eth0"))[0]
    assert shaped["kind"] == "tbf" and shaped["overlimits"] > 0, shaped


def narrow_and_late():
    """The relay's devices are shaped as others are: 4 Mbit/s, 2 x 100 kB less 2 x 64 KiB take 137 ms, and the delay 2 ms."""
    assert pingpong(2, 100000)[2] >= 135
    assert counts()["came"] >= 2 * 2 * 100000 // 1500


def lossy():
    """20 % of 2,000 packets: 400 with a deviation of 18."""
    came, behind, _, _ = packets("host2", 2000, expected=1601, silence=5)
    rules = json.loads(run("hosts-on", "host2", "nft --json list chain inet loss input"))["nftables"]
    dropped = [word["counter"]["packets"] for rule in rules if "rule" in rule for word in rule["rule"]["expr"] if "counter" in word]
    assert 300 <= dropped[0] <= 500, dropped
    assert behind == 0
    # It may have ended when the 1,601st came.
    assert came == 2000 - dropped[0] or came == 1601, (came, dropped)


def late():
    """20 ms in each direction; `delay` changes it."""
    hosts, right, fastest = pingpong(5, 1000)
    assert hosts == ["host1", "host2"] and right == 5
    assert fastest >= 40, fastest
    came, behind, least, _ = packets("host2", 200)
    assert (came, behind) == (200, 0) and least >= 20, (came, behind, least)
    before = counts()
    assert before["came"] >= before["passed"] >= 200 and before["delayed"] + before["lost"] == before["came"], before
    assert before["cut"] == 0 and before["overtaking"] == 0, before
    run("hosts-link", "delay", "0")
    assert packets("host2", 200)[0] == 200
    assert counts()["delayed"] - before["delayed"] < 100


def cut_and_healed():
    """A cut link carries nothing, others do; what TCP had under way arrives once the link is whole."""
    echo = ("import socket; server = socket.create_server(('', 7701)); print('ready', flush=True); peer = server.accept()[0]\n"
            "while data := peer.recv(100): peer.sendall(data)")
    with subprocess.Popen(["hosts-on", "host2", f"{sys.executable} -c \"{echo}\""], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        try:
            with contextlib.closing(socket.create_connection(("host2", 7701), timeout=60)) as stream:
                stream.sendall(b"before")
                assert stream.recv(100) == b"before"
                run("hosts-link", "cut", "host1", "host2")
                assert packets("host2", 200, seconds=0.5)[0] == 0
                assert packets("host3", 200)[0] == 200
                stream.sendall(b"during")
                stream.settimeout(0.5)
                with contextlib.suppress(TimeoutError):
                    raise AssertionError(stream.recv(100))
                assert counts()["cut"] > 200  # and TCP's
                run("hosts-link", "heal")
                stream.settimeout(60)
                assert stream.recv(100) == b"during"
            assert server.wait() == 0
        finally:
            server.kill()  # a link that stays cut would let it wait for the end of the stream
    run("hosts-link", "cut", "host3")
    assert packets("host3", 50, seconds=0.5)[0] == 0
    assert packets("host2", 50)[0] == 50


def jittery():
    """0 to 30 ms in the order of sending: 15 ms on average, and more where packets wait for those before them."""
    came, behind, _, mean = packets("host2", 500)
    assert (came, behind) == (500, 0) and mean >= 12, (came, behind, mean)


def reordered():
    """20 % of 2,000 packets are under way for 3 ms in place of 1: 400 with a deviation of 18."""
    before = counts()["overtaking"]
    came, behind, least, _ = packets("host2", 2000)
    held_back = counts()["overtaking"] - before
    assert came == 2000 and least >= 1, (came, least)
    assert 300 <= held_back <= 500 and 0 < behind <= held_back, (held_back, behind)


def refused():
    """Words that the relay does not know are refused with what it expects, and change nothing."""
    for words in ["cut"], ["cut", "9"], ["cut", "host1", "host0"], ["delay", "-1"], ["delay", "1", "2"], ["heal", "1"], ["nonsense"]:
        got = subprocess.run(["hosts-link", *words], stderr=subprocess.PIPE, text=True, check=False)
        assert got.returncode == 1, words
        assert f"hosts from 1 to 2, received \"{' '.join(words)}\"" in got.stderr, got.stderr
    assert packets("host2", 50)[:2] == (50, 0)


CASES = [
    (whole, "3"),
    (narrow, "2 --rate 16"),
    (narrow_and_late, "2 --rate 4 --delay 1"),
    (lossy, "2 --loss 20"),
    (late, "2 --delay 20"),
    (cut_and_healed, "3 --relay"),
    (jittery, "2 --jitter 30"),
    (reordered, "2 --delay 1 --reorder 20 --seed 5"),
    (refused, "2 --relay"),
]


def main():
    if len(sys.argv) == 2:
        dict((case.__name__, case) for case, _ in CASES)[sys.argv[1]]()
        return
    ran = 0
    run("mpicc.openmpi", "-std=c11", "-O1", "-Wall", "-Wextra", "-o", str(PINGPONG), str(HERE / "pingpong.c"))
    for case, options in CASES:
        code = subprocess.call([HERE / "hosts", *options.split(), "--", sys.executable, __file__, case.__name__])
        if code == 77:
            sys.exit(77)
        assert code == 0, f"{case.__name__} (hosts {options}) ended with {code}"
        ran += 1
        print(f"{case.__name__}: right", flush=True)
    assert ran == 9, ran


main()
