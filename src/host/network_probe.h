// SPDX-License-Identifier: MIT
//
// This machine's addresses, and tests of the connection between two machines: TCP over IPv4, one
// connection at a time, with a token, for a short time. No other sockets exist outside MPI. Every
// call ends by itself.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_ADDRESSES_MAX = 64, MMUL_TOKEN_LENGTH = 16 };

struct mmul_address {
    char interface[16];
    char text[16]; // "10.0.0.1"
    uint32_t bits; // value of `text`, most significant byte first
    int prefix;    // prefix length of its network: 24
};

// Lists addresses of interfaces that are up, without the loopback. Returns their number, at most
// `capacity`.
int mmul_addresses_list(struct mmul_address *addresses, int capacity);

// Returns true if a host name or an address belongs to this machine, including the loopback. Calls
// the system's resolver.
bool mmul_address_is_own(const char *name);

// Returns true if a name is an address of any family, which needs no look-up.
bool mmul_address_is_numeric(const char *name);

// Makes an address without interface from "10.0.0.1" and 24. Returns false if `text` is not an
// address.
bool mmul_address_parse(const char *text, int prefix, struct mmul_address *address);

bool mmul_address_same_network(const struct mmul_address *a, const struct mmul_address *b);

// Writes "10.0.0.0/24". Returns `text`.
char *mmul_address_network(const struct mmul_address *address, char text[static 24]);

// Listening port, chosen by the system, that accepts one connection. Fails with MMUL_ERR_SYSTEM.
struct mmul_listener {
    int fd;
    int port;
};
enum mmul_status mmul_listener_open(struct mmul_listener *listener, struct mmul_error *err);

// Data received over a connection, as measured by the receiver.
struct mmul_received {
    bool connected; // a peer sent the token
    int64_t bytes;
    double bytes_per_second; // without bytes from buffers; 0: too few bytes to measure
};

// Waits at most `seconds` for a peer that sends `token`, reads the following bytes for at most
// `seconds`, and closes the listener. Other peers are disconnected. Stops waiting when `cancel` (a
// file descriptor; -1: none) becomes readable or its other end is closed.
void mmul_listener_receive(struct mmul_listener *listener,
                           const char token[static MMUL_TOKEN_LENGTH], double seconds, int cancel,
                           struct mmul_received *received);

// Result of a connection to another machine.
struct mmul_reach {
    int errnum;             // 0: connected and sent; ETIMEDOUT: no answer
    double connect_seconds; // time to connect
    char local[16];         // local address and interface of the connection; "" without connection
    char interface[16];
};

// Connects to a listener of another machine within `seconds`, sends the token and then bytes for a
// fraction of a second.
void mmul_network_probe_connect(const char *address, int port,
                                const char token[static MMUL_TOKEN_LENGTH], double seconds,
                                struct mmul_reach *reach);
