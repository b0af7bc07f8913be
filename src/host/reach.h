// SPDX-License-Identifier: MIT
//
// Which addresses this machine has, and whether one machine reaches another: TCP over IPv4, one
// connection at a time, with a token, for a moment. The only sockets outside of MPI. Nothing here
// stays: every call ends by itself.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_ADDRESSES_MAX = 64, MMUL_TOKEN_LENGTH = 16 };

struct mmul_address {
    char interface[16];
    char text[16]; // "10.0.0.1"
    uint32_t bits; // of `text`, most significant byte first
    int prefix;    // of its network: 24
};

// Addresses of interfaces that are up, without the loopback. Returns how many, at most `capacity`.
int mmul_addresses_list(struct mmul_address *addresses, int capacity);

// Whether the name of a host, or an address, is one of this machine's own, the loopback included.
// Asks the system's resolver.
bool mmul_address_is_own(const char *name);

// Whether a name is an address of any family, so that it needs no look-up.
bool mmul_address_is_numeric(const char *name);

// "10.0.0.1" and 24 to an address without interface; false when `text` is none.
bool mmul_address_parse(const char *text, int prefix, struct mmul_address *address);

bool mmul_address_same_network(const struct mmul_address *a, const struct mmul_address *b);

// "10.0.0.0/24". Returns `text`.
char *mmul_address_network(const struct mmul_address *address, char text[static 24]);

// A port of this machine's choice that takes one connection. Fails with MMUL_ERR_SYSTEM.
struct mmul_listener {
    int fd;
    int port;
};
enum mmul_status mmul_listener_open(struct mmul_listener *listener, struct mmul_error *err);

// What came over a connection, as the receiving side saw it.
struct mmul_received {
    bool connected; // somebody with the token came
    int64_t bytes;
    double bytes_per_second; // without what buffers took at once; 0: too little came to tell
};

// Waits `seconds` at most for somebody who sends `token`, reads what follows for `seconds` at most,
// and closes the listener. Others who connect are sent away. Waits no longer when `cancel` (a file
// descriptor; -1: none) has something to read, or ends.
void mmul_listener_receive(struct mmul_listener *listener,
                           const char token[static MMUL_TOKEN_LENGTH], double seconds, int cancel,
                           struct mmul_received *received);

// What happened on the way to another machine.
struct mmul_reach {
    int errnum;             // 0: connected and sent; ETIMEDOUT: no answer
    double connect_seconds; // when connected
    char local[16];         // address and
    char interface[16];     // interface that the connection left by; "" when not connected
};

// Connects to a listener of another machine within `seconds`, sends the token and then bytes for a
// fraction of a second.
void mmul_reach_connect(const char *address, int port, const char token[static MMUL_TOKEN_LENGTH],
                        double seconds, struct mmul_reach *reach);
