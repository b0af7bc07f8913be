// SPDX-License-Identifier: MIT
// Cards on a PCI bus: only those of makers of compute cards count.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"
#include "host/cards.h"

static void add_card(struct folder *bus, const char *address, const char *class,
                     const char *vendor) {
    const char *const values[][2] = {{"class", class}, {"vendor", vendor}};
    char path[600];
    snprintf(path, sizeof path, "%s/%s", bus->path, address);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", bus->path, address, values[i][0]);
        FILE *stream = fopen(path, "w");
        assert_non_null(stream);
        fputs(values[i][1], stream);
        assert_int_equal(fclose(stream), 0);
    }
}

static void test_only_cards_of_compute_makers_are_found(void **state) {
    (void)state;
    struct folder bus;
    struct mmul_card cards[4];
    char command[300];
    folder_create(&bus);
    assert_int_equal(mmul_cards_find(bus.path, cards, 4), 0);
    assert_int_equal(mmul_cards_find("/nowhere", cards, 4), 0);
    add_card(&bus, "0000:00:01.0", "0x030000\n", "0x1234\n"); // the console of a virtual machine
    add_card(&bus, "0000:00:02.0", "0x020000\n", "0x8086\n"); // a network card
    assert_int_equal(mmul_cards_find(bus.path, cards, 4), 0);
    add_card(&bus, "0000:65:00.0", "0x030200\n", "0x10de\n");
    assert_int_equal(mmul_cards_find(bus.path, cards, 4), 1);
    assert_string_equal(cards[0].address, "0000:65:00.0");
    assert_string_equal(cards[0].vendor, "NVIDIA");
    assert_string_equal(cards[0].package, "nvidia-opencl-icd");
    add_card(&bus, "0000:66:00.0", "0x030000\n", "0x1002\n");
    assert_int_equal(mmul_cards_find(bus.path, cards, 4), 2);
    assert_int_equal(mmul_cards_find(bus.path, cards, 1), 1);
    snprintf(command, sizeof command, "rm -r '%s'", bus.path);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_cards_of_compute_makers_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
