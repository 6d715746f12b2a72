"""What passes between two hosts, by UDP: packets.py send HOST COUNT | receive COUNT SECONDS SILENCE.

`receive` listens at port 7700, says "ready", and ends when COUNT packets have come, SECONDS are over, or none has come for SILENCE seconds after the last; then it prints how many came, how
many of them behind a later one, and the least and the mean time under way in milliseconds (the hosts have one clock)."""
import socket
import struct
import sys
import time

PORT = 7700
SO_RCVBUFFORCE = 33


def send(host, count):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(count):
            sender.sendto(struct.pack("!Iq", number, time.monotonic_ns()), (host, PORT))
            if number % 50 == 49:
                time.sleep(0.001)


def receive(count, seconds, silence):
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)  # none is lost for want of room
    listener.bind(("", PORT))
    print("ready", flush=True)
    latest, behind, times = -1, 0, []
    end = time.monotonic() + seconds
    while len(times) < count and time.monotonic() < end:
        left = max(end - time.monotonic(), 0.001)
        listener.settimeout(min(left, silence) if times else left)
        try:
            number, sent = struct.unpack("!Iq", listener.recv(64))
        except TimeoutError:
            break
        times.append((time.monotonic_ns() - sent) / 1e6)
        behind += number < latest
        latest = max(latest, number)
    print(len(times), behind, min(times, default=0), sum(times) / max(len(times), 1))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]))
    else:
        receive(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
