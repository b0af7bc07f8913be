// SPDX-License-Identifier: MIT
// TCP connections with timeouts. The sender decides how long bytes flow. The receiver measures
// their time, because only it knows when they arrived. It skips the first bytes, which buffers and
// traffic shapers pass at once. Makes no judgement.
#include "host/network_probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"

static const double FLOW_SECONDS = 0.3;
static const double UNCOUNTED_SECONDS = 0.05;

enum { FLOW_BYTES = 64 << 20, UNCOUNTED_BYTES = 512 << 10, BLOCK_BYTES = 256 << 10 };

// --------------------------------------------------------------------------------------- addresses

static uint32_t mask_of(int prefix) {
    return prefix <= 0 ? 0 : UINT32_MAX << (32 - (prefix < 32 ? prefix : 32));
}

bool mmul_address_parse(const char *text, int prefix, struct mmul_address *address) {
    struct in_addr parsed;
    if (inet_pton(AF_INET, text, &parsed) != 1 || prefix < 0 || prefix > 32)
        return false;
    *address = (struct mmul_address){.bits = ntohl(parsed.s_addr), .prefix = prefix};
    mmul_text_copy(address->text, sizeof address->text, text);
    return true;
}

static uint32_t bits_of(const struct sockaddr *address) {
    struct sockaddr_in internet;
    memcpy(&internet, address, sizeof internet);
    return ntohl(internet.sin_addr.s_addr);
}

static void format_bits(uint32_t bits, char text[static 16]) {
    snprintf(text, 16, "%u.%u.%u.%u", bits >> 24, bits >> 16 & 255, bits >> 8 & 255, bits & 255);
}

int mmul_addresses_list(struct mmul_address *addresses, int capacity) {
    struct ifaddrs *all = NULL;
    int count = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *one = all; one != NULL && count < capacity; one = one->ifa_next) {
        bool is_up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
        if (!is_up || one->ifa_addr == NULL || one->ifa_netmask == NULL ||
            one->ifa_addr->sa_family != AF_INET)
            continue;
        struct mmul_address *address = &addresses[count++];
        *address = (struct mmul_address){
            .bits = bits_of(one->ifa_addr),
            .prefix = __builtin_popcount(bits_of(one->ifa_netmask)),
        };
        format_bits(address->bits, address->text);
        mmul_text_copy(address->interface, sizeof address->interface, one->ifa_name);
    }
    freeifaddrs(all);
    return count;
}

bool mmul_address_same_network(const struct mmul_address *a, const struct mmul_address *b) {
    return a->prefix == b->prefix && ((a->bits ^ b->bits) & mask_of(a->prefix)) == 0;
}

char *mmul_address_network(const struct mmul_address *address, char text[static 24]) {
    char bits[16];
    format_bits(address->bits & mask_of(address->prefix), bits);
    snprintf(text, 24, "%s/%d", bits, address->prefix);
    return text;
}

bool mmul_address_is_numeric(const char *name) {
    const struct addrinfo wanted = {.ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    if (getaddrinfo(name, NULL, &wanted, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

bool mmul_address_is_own(const char *name) {
    const struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct mmul_address own[MMUL_ADDRESSES_MAX];
    struct addrinfo *found = NULL;
    if (getaddrinfo(name, NULL, &wanted, &found) != 0)
        return false;
    int count = mmul_addresses_list(own, MMUL_ADDRESSES_MAX);
    bool is_own = false;
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        uint32_t bits = bits_of(one->ai_addr);
        is_own = is_own || bits >> 24 == 127;
        for (int a = 0; a < count; a++)
            is_own = is_own || own[a].bits == bits;
    }
    freeaddrinfo(found);
    return is_own;
}

// ----------------------------------------------------------------------------------------- waiting

// Returns true if `fd` is ready for `events` before the clock reaches `deadline`.
static bool wait_until_ready(int fd, short events, double deadline) {
    for (;;) {
        double left = deadline - mmul_clock_now();
        struct pollfd ready = {.fd = fd, .events = events};
        int count = poll(&ready, 1, left > 0.0 ? (int)(left * 1000.0) + 1 : 0);
        if (count > 0 || left <= 0.0)
            return count > 0;
    }
}

// Reads the available bytes. Returns -1 at the end, on failure or at the deadline.
static ssize_t read_some(int fd, void *bytes, size_t capacity, double deadline) {
    while (wait_until_ready(fd, POLLIN, deadline)) {
        ssize_t got = recv(fd, bytes, capacity, MSG_DONTWAIT);
        if (got > 0)
            return got;
        if (got == 0 || (errno != EINTR && errno != EAGAIN))
            return -1;
    }
    return -1;
}

// Sends all bytes. Returns false on failure, with errno set.
static bool send_all(int fd, const char *bytes, size_t count, double deadline) {
    while (count > 0) {
        if (!wait_until_ready(fd, POLLOUT, deadline)) {
            errno = ETIMEDOUT;
            return false;
        }
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

// --------------------------------------------------------------------------------------- listening

enum mmul_status mmul_listener_open(struct mmul_listener *listener, struct mmul_error *err) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0 && listen(fd, 8) == 0 &&
        getsockname(fd, (struct sockaddr *)&any, &length) == 0) {
        *listener = (struct mmul_listener){.fd = fd, .port = ntohs(any.sin_port)};
        return MMUL_OK;
    }
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errnum, "cannot listen on a TCP port");
}

static bool has_token(int fd, const char *token, double deadline) {
    char got[MMUL_TOKEN_LENGTH] = "";
    size_t have = 0;
    while (have < sizeof got) {
        ssize_t more = read_some(fd, got + have, sizeof got - have, deadline);
        if (more < 0)
            return false;
        have += (size_t)more;
    }
    return memcmp(got, token, sizeof got) == 0;
}

// Returns the connection of a peer that sends the token, or -1 if there is none.
static int accept_token(int listening, const char *token, double deadline, int cancel) {
    for (;;) {
        double left = deadline - mmul_clock_now();
        struct pollfd ready[] = {{.fd = listening, .events = POLLIN},
                                 {.fd = cancel, .events = POLLIN}};
        int count = poll(ready, 2, left > 0.0 ? (int)(left * 1000.0) + 1 : 0);
        if (ready[0].revents == 0 && (count > 0 || left <= 0.0))
            return -1;
        int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0 && has_token(fd, token, deadline))
            return fd;
        if (fd >= 0)
            close(fd);
    }
}

static void count_bytes(int fd, double deadline, struct mmul_received *received) {
    static char block[BLOCK_BYTES];
    double begin = mmul_clock_now(), counted_from = 0.0, last = begin;
    int64_t uncounted = 0;
    ssize_t got;
    while ((got = read_some(fd, block, sizeof block, deadline)) > 0) {
        received->bytes += got;
        last = mmul_clock_now();
        if (counted_from == 0.0 &&
            (received->bytes >= UNCOUNTED_BYTES || last - begin >= UNCOUNTED_SECONDS)) {
            counted_from = last;
            uncounted = received->bytes;
        }
    }
    if (counted_from > 0.0 && last > counted_from)
        received->bytes_per_second = (double)(received->bytes - uncounted) / (last - counted_from);
}

void mmul_listener_receive(struct mmul_listener *listener,
                           const char token[static MMUL_TOKEN_LENGTH], double seconds, int cancel,
                           struct mmul_received *received) {
    *received = (struct mmul_received){.connected = false};
    int fd = accept_token(listener->fd, token, mmul_clock_now() + seconds, cancel);
    close(listener->fd);
    listener->fd = -1;
    if (fd < 0)
        return;
    received->connected = true;
    count_bytes(fd, mmul_clock_now() + seconds, received);
    close(fd);
}

// -------------------------------------------------------------------------------------- connecting

// Returns 0 or errno.
static int connect_within(int fd, const struct sockaddr_in *to, double deadline) {
    int errnum = 0;
    socklen_t length = sizeof errnum;
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (!wait_until_ready(fd, POLLOUT, deadline))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &length) == 0 ? errnum : errno;
}

static void find_local_address(int fd, struct mmul_reach *reach) {
    struct mmul_address addresses[MMUL_ADDRESSES_MAX];
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t length = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &length) != 0)
        return;
    uint32_t bits = ntohl(own.sin_addr.s_addr);
    int count = mmul_addresses_list(addresses, MMUL_ADDRESSES_MAX);
    format_bits(bits, reach->local);
    for (int a = 0; a < count; a++)
        if (addresses[a].bits == bits)
            mmul_text_copy(reach->interface, sizeof reach->interface, addresses[a].interface);
}

// Sends the token, then bytes for a fixed time. Returns 0 or errno. A slow network may still carry
// the last bytes after that.
static int send_flow(int fd, const char *token, double seconds) {
    static const char block[BLOCK_BYTES];
    double begin = mmul_clock_now(), deadline = begin + seconds;
    if (!send_all(fd, token, MMUL_TOKEN_LENGTH, deadline))
        return errno;
    for (int64_t sent = 0; sent < FLOW_BYTES && mmul_clock_now() < begin + FLOW_SECONDS;
         sent += BLOCK_BYTES)
        if (!send_all(fd, block, sizeof block, deadline))
            return errno;
    return 0;
}

void mmul_network_probe_connect(const char *address, int port,
                                const char token[static MMUL_TOKEN_LENGTH], double seconds,
                                struct mmul_reach *reach) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    *reach = (struct mmul_reach){.errnum = EINVAL};
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        return;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        reach->errnum = errno;
        return;
    }
    double begin = mmul_clock_now();
    reach->errnum = connect_within(fd, &to, begin + seconds);
    if (reach->errnum == 0) {
        reach->connect_seconds = mmul_clock_now() - begin;
        find_local_address(fd, reach);
        reach->errnum = send_flow(fd, token, seconds);
    }
    close(fd);
}
