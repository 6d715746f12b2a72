/* The network between simulated hosts where it has to be slow or broken (hosts): a tun device
 * `eth0` in the network of each host, and this program between them. Packets are held for a delay,
 * may overtake each other, and do not pass a link that is cut.
 *
 *     relay WORDS SEED DELAY JITTER REORDER PID...
 *
 * WORDS is a FIFO of lines "ANSWER WORD...", ANSWER a file to write; delay and jitter are
 * milliseconds, REORDER is a percentage; process i of PID... is in the network of host i, whose
 * address ends in i. The file WORDS.ready says that the devices are there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { RELAY_HOSTS = 64, RELAY_PACKET = 65536, RELAY_HELD = 1 << 16, RELAY_BATCH = 64 };

typedef struct {
    uint64_t due, number; /* nanoseconds; packets of one time go in their order */
    int to;
    size_t bytes;
    unsigned char *data;
} relay_packet;

static struct {
    int hosts, words, devices[RELAY_HOSTS];
    bool cut[RELAY_HOSTS][RELAY_HOSTS];
    uint64_t last[RELAY_HOSTS][RELAY_HOSTS]; /* when the latest packet of the pair is due: jitter overtakes nobody */
    uint64_t delay, jitter, reorder, seed;
    relay_packet held[RELAY_HELD]; /* a heap: the first is the first to go */
    size_t count;
    /* Each packet that came is counted once more when its way ends: passed, cut, lost (no such
     * host, no room), or it is still held. */
    uint64_t came, passed, cuts, lost, delayed, overtaking;
} relay;

static void relay_fail(const char *what) {
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t relay_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* xorshift64*; `below` > 0. */
static uint64_t relay_random(uint64_t below) {
    relay.seed ^= relay.seed >> 12, relay.seed ^= relay.seed << 25, relay.seed ^= relay.seed >> 27;
    return (relay.seed * 2685821657736338717u >> 16) % below;
}

static bool relay_number(const char *text, double most, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && *value >= 0 && *value <= most;
}

static bool relay_before(const relay_packet *a, const relay_packet *b) {
    return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static void relay_swap(size_t a, size_t b) {
    const relay_packet packet = relay.held[a];
    relay.held[a] = relay.held[b], relay.held[b] = packet;
}

static void relay_push(relay_packet packet) {
    size_t at = relay.count++;
    relay.held[at] = packet;
    for (; at && relay_before(&relay.held[at], &relay.held[(at - 1) / 2]); at = (at - 1) / 2) relay_swap(at, (at - 1) / 2);
}

static relay_packet relay_pop(void) {
    const relay_packet first = relay.held[0];
    relay.held[0] = relay.held[--relay.count];
    for (size_t at = 0;;) {
        size_t next = 2 * at + 1;
        if (next + 1 < relay.count && relay_before(&relay.held[next + 1], &relay.held[next])) next++;
        if (next >= relay.count || !relay_before(&relay.held[next], &relay.held[at])) return first;
        relay_swap(at, next), at = next;
    }
}

/* A packet of host `from`, read from its device. The host that it is for stands in its IPv4
 * header. */
static void relay_take(int from, const unsigned char *data, size_t bytes) {
    relay.came++;
    const int to = bytes >= 20 && data[0] >> 4 == 4 ? data[19] - 1 : -1;
    if (to < 0 || to >= relay.hosts || to == from) {
        relay.lost++;
        return;
    }
    if (relay.cut[from][to]) {
        relay.cuts++;
        return;
    }
    const uint64_t now = relay_now();
    relay_packet packet = {.due = now + relay.delay, .number = relay.came, .to = to, .bytes = bytes};
    if (relay.reorder && relay_random(100) < relay.reorder) {
        packet.due += relay.delay + 1000000;
        relay.overtaking++;
    } else {
        if (relay.jitter) packet.due += relay_random(relay.jitter + 1);
        if (packet.due < relay.last[from][to]) packet.due = relay.last[from][to];
        relay.last[from][to] = packet.due;
    }
    packet.data = relay.count < RELAY_HELD ? malloc(bytes) : NULL;
    if (!packet.data) {
        relay.lost++;
        return;
    }
    if (packet.due > now) relay.delayed++;
    memcpy(packet.data, data, bytes);
    relay_push(packet);
}

/* Sends what is due; a link that was cut meanwhile holds it back no more: it had left the host. */
static void relay_send_due(void) {
    const uint64_t now = relay_now();
    while (relay.count && relay.held[0].due <= now) {
        const relay_packet packet = relay_pop();
        if (write(relay.devices[packet.to], packet.data, packet.bytes) == (ssize_t)packet.bytes)
            relay.passed++;
        else
            relay.lost++;
        free(packet.data);
    }
}

/* Host `text`, or -1. */
static int relay_host(const char *text) {
    char *end;
    const long host = strtol(strncmp(text, "host", 4) ? text : text + 4, &end, 10);
    return *end || host < 1 || host > relay.hosts ? -1 : (int)host - 1;
}

/* Cuts host a off from b, or from all where b is -1. */
static void relay_cut(int a, int b) {
    for (int other = 0; other < relay.hosts; other++)
        if (b < 0 || other == b) relay.cut[a][other] = relay.cut[other][a] = true;
}

/* Does what a line of WORDS says, and writes the answer. */
static void relay_obey(char *line) {
    char *rest, *path = strtok_r(line, " ", &rest), *word = strtok_r(NULL, " ", &rest), *first = strtok_r(NULL, " ", &rest),
                *second = strtok_r(NULL, " ", &rest), written[4096];
    double value;
    if (!path || snprintf(written, sizeof written, "%s.tmp", path) >= (int)sizeof written) return;
    FILE *answer = fopen(written, "w");
    if (!answer) return;
    if (word && !strcmp(word, "cut") && first && relay_host(first) >= 0 && (!second || relay_host(second) >= 0)) {
        relay_cut(relay_host(first), second ? relay_host(second) : -1);
    } else if (word && !strcmp(word, "heal") && !first) {
        memset(relay.cut, 0, sizeof relay.cut);
    } else if (word && !strcmp(word, "delay") && first && !second && relay_number(first, 99999, &value)) {
        relay.delay = (uint64_t)(value * 1e6);
    } else if (word && !strcmp(word, "counts") && !first) {
        fprintf(answer,
                "came %" PRIu64 "\npassed %" PRIu64 "\ncut %" PRIu64 "\nlost %" PRIu64 "\nheld %zu\ndelayed %" PRIu64
                "\novertaking %" PRIu64 "\n",
                relay.came, relay.passed, relay.cuts, relay.lost, relay.count, relay.delayed, relay.overtaking);
    } else {
        fprintf(answer, "refused: expected cut HOST [HOST], heal, delay MS or counts, hosts from 1 to %d, received \"%s%s%s%s%s\"\n",
                relay.hosts, word ? word : "", first ? " " : "", first ? first : "", second ? " " : "", second ? second : "");
    }
    if (fclose(answer) == 0) rename(written, path);
}

/* Reads what is there of WORDS, and obeys whole lines. */
static void relay_read_words(void) {
    static char text[8192];
    static size_t filled;
    const ssize_t bytes = read(relay.words, text + filled, sizeof text - 1 - filled);
    if (bytes <= 0) return;
    filled += (size_t)bytes;
    text[filled] = 0;
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        relay_obey(line);
    }
    filled -= (size_t)(line - text);
    memmove(text, line, filled);
    if (filled == sizeof text - 1) filled = 0; /* no line of ours is so long */
}

/* The device `eth0` in the network of process `pid`. */
static int relay_open(const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    const int network = open(path, O_RDONLY | O_CLOEXEC);
    if (network < 0 || setns(network, CLONE_NEWNET)) relay_fail(path);
    close(network);
    const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq request = {.ifr_name = "eth0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (device < 0 || ioctl(device, TUNSETIFF, &request)) relay_fail("/dev/net/tun");
    return device;
}

static void relay_loop(void) {
    static unsigned char data[RELAY_PACKET];
    struct pollfd polled[RELAY_HOSTS + 1];
    for (int i = 0; i <= relay.hosts; i++)
        polled[i] = (struct pollfd){.fd = i < relay.hosts ? relay.devices[i] : relay.words, .events = POLLIN};
    for (;;) {
        const uint64_t now = relay_now(), wait = relay.count && relay.held[0].due > now ? relay.held[0].due - now : 0;
        const struct timespec pause = {.tv_sec = (time_t)(wait / 1000000000), .tv_nsec = (long)(wait % 1000000000)};
        if (ppoll(polled, (nfds_t)relay.hosts + 1, relay.count ? &pause : NULL, NULL) < 0 && errno != EINTR) relay_fail("ppoll");
        if (polled[relay.hosts].revents) relay_read_words();
        for (int from = 0; from < relay.hosts; from++) {
            ssize_t bytes;
            for (int i = 0; polled[from].revents & POLLIN && i < RELAY_BATCH && (bytes = read(relay.devices[from], data, sizeof data)) > 0;
                 i++)
                relay_take(from, data, (size_t)bytes);
        }
        relay_send_due();
    }
}

int main(int count, char **arguments) {
    double seed, delay, jitter, reorder;
    if (count < 7 || count - 6 > RELAY_HOSTS || !relay_number(arguments[2], 1e9, &seed) || !relay_number(arguments[3], 99999, &delay) ||
        !relay_number(arguments[4], 99999, &jitter) || !relay_number(arguments[5], 99, &reorder)) {
        fprintf(stderr, "relay: expected WORDS SEED DELAY JITTER REORDER PID..., of 1 to %d processes\n", RELAY_HOSTS);
        return 2;
    }
    relay.seed = (uint64_t)seed * 0x9e3779b97f4a7c15u | 1;
    relay.delay = (uint64_t)(delay * 1e6), relay.jitter = (uint64_t)(jitter * 1e6), relay.reorder = (uint64_t)reorder;
    relay.hosts = count - 6;
    prctl(PR_SET_TIMERSLACK, 1000ul);
    /* Read and write, so that it does not end when a writer does. */
    relay.words = open(arguments[1], O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (relay.words < 0) relay_fail(arguments[1]);
    for (int i = 0; i < relay.hosts; i++) relay.devices[i] = relay_open(arguments[6 + i]);
    char ready[4096];
    snprintf(ready, sizeof ready, "%s.ready", arguments[1]);
    if (creat(ready, 0600) < 0) relay_fail(ready);
    relay_loop();
}
