// SPDX-License-Identifier: MIT
//
// A connection from one machine to another, here over the loopback.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "host/network_probe.h"

static const char token[] = "0123456789abcdef", wrong_token[] = "0123456789abcdeX";

struct caller {
    int port;
    const char *token;
    struct mmul_reach reach;
};

static void *connect_to_listener(void *argument) {
    struct caller *caller = argument;
    mmul_network_probe_connect("127.0.0.1", caller->port, caller->token, 10, &caller->reach);
    return NULL;
}

// Runs a caller in a thread of its own, and a listener that accepts only a peer with the token.
static void connect_and_receive(struct caller *caller, double seconds,
                                struct mmul_received *received) {
    struct mmul_listener listener;
    struct mmul_error err = {0};
    pthread_t thread;
    assert_int_equal(mmul_listener_open(&listener, &err), MMUL_OK);
    caller->port = listener.port;
    assert_int_equal(pthread_create(&thread, NULL, connect_to_listener, caller), 0);
    mmul_listener_receive(&listener, token, seconds, -1, received);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_bytes_arrive(void **state) {
    (void)state;
    struct mmul_received received;
    struct caller caller = {.token = token};
    connect_and_receive(&caller, 10, &received);
    assert_int_equal(caller.reach.errnum, 0);
    assert_true(received.connected && received.bytes > 0 && received.bytes_per_second > 0);
    assert_string_equal(caller.reach.local, "127.0.0.1");
    mmul_network_probe_connect("127.0.0.1", caller.port, token, 10,
                               &caller.reach); // closes the connection
    assert_int_equal(caller.reach.errnum, ECONNREFUSED);
}

static void test_a_caller_with_a_wrong_token_is_refused(void **state) {
    (void)state;
    struct mmul_received received;
    struct caller caller = {.token = wrong_token};
    connect_and_receive(&caller, 0.5, &received);
    assert_false(received.connected);
    assert_int_equal(received.bytes, 0);
}

// No caller comes: readable data on the other descriptor end the wait long before its limit.
static void test_waiting_is_cancelled(void **state) {
    (void)state;
    struct mmul_listener listener;
    struct mmul_received received;
    struct mmul_error err = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "\n", 1), 1);
    assert_int_equal(mmul_listener_open(&listener, &err), MMUL_OK);
    mmul_listener_receive(&listener, token, 1e6, ends[0], &received);
    assert_false(received.connected);
    close(ends[0]);
    close(ends[1]);
}

static void test_own_addresses_are_recognised(void **state) {
    (void)state;
    assert_true(mmul_address_is_own("127.0.0.1"));
    assert_true(mmul_address_is_own("127.1.2.3"));
    assert_true(mmul_address_is_own("localhost"));
    assert_false(mmul_address_is_own("192.0.2.1")); // belongs to no machine: RFC 5737
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_arrive),
        cmocka_unit_test(test_a_caller_with_a_wrong_token_is_refused),
        cmocka_unit_test(test_waiting_is_cancelled),
        cmocka_unit_test(test_own_addresses_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
