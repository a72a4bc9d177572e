/* Copyright: (c) 2026, The berth.kvm authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A guest whose data can be judged: numbered, checksummed blocks of 4 KiB, each on disk before it is acknowledged.
 *
 *   writer verify RING         prints "none", "ok LAST" or "bad FIRST_BAD LAST"; LAST is the highest intact number
 *   writer run RING ACK MS     writes for ever, MS apart; ACK holds the last acknowledged number; says it once a second
 *
 * RING is a file of SLOTS blocks, number n in slot n % SLOTS. Block n + 1 is written only after block n is acknowledged,
 * so with LAST found, the SLOTS - 1 numbers that end there must all be intact (the other slot may have been torn).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 4096, WORDS = SIZE / 8, SLOTS = 1024 };

static const uint64_t MAGIC = 0x6b636f6c62746862; /* "bhtblock" */

static uint64_t checksum(const uint64_t *block) /* FNV-1a over all words but the last */
{
    uint64_t sum = 0xcbf29ce484222325;

    for (int word = 0; word < WORDS - 1; word++)
        sum = (sum ^ block[word]) * 0x100000001b3;
    return sum;
}

static void fill(uint64_t *block, uint64_t number)
{
    block[0] = MAGIC;
    block[1] = number;
    for (int word = 2; word < WORDS - 1; word++)
        block[word] = (number + word) * 0x9e3779b97f4a7c15;
    block[WORDS - 1] = checksum(block);
}

/* The number in a slot, 0 when what is there is no intact block of this slot. */
static uint64_t number_in(int ring, int slot)
{
    uint64_t block[WORDS];

    if (pread(ring, block, SIZE, (off_t)slot * SIZE) != SIZE)
        return 0;
    if (block[0] != MAGIC || block[1] % SLOTS != (uint64_t)slot || block[WORDS - 1] != checksum(block))
        return 0;
    return block[1];
}

static uint64_t last_number(int ring)
{
    uint64_t last = 0;

    for (int slot = 0; slot < SLOTS; slot++) {
        uint64_t number = number_in(ring, slot);
        if (number > last)
            last = number;
    }
    return last;
}

static uint64_t first_bad(int ring, uint64_t last)
{
    for (uint64_t number = last > SLOTS - 2 ? last - (SLOTS - 2) : 1; number <= last; number++)
        if (number_in(ring, number % SLOTS) != number)
            return number;
    return 0;
}

static int verify(const char *path)
{
    int ring = open(path, O_RDONLY);
    uint64_t last = ring < 0 ? 0 : last_number(ring), bad;

    if (!last) {
        puts("none");
        return 0;
    }
    bad = first_bad(ring, last);
    if (bad)
        printf("bad %llu %llu\n", (unsigned long long)bad, (unsigned long long)last);
    else
        printf("ok %llu\n", (unsigned long long)last);
    return bad != 0;
}

static int fail(const char *what)
{
    printf("berth-guest writer error=%s errno=%d end\n", what, errno);
    return 1;
}

/* Real zeros, so that writing a block later changes no metadata. */
static int make_ring(int ring)
{
    static const char zeros[SIZE];

    for (int slot = 0; slot < SLOTS; slot++)
        if (pwrite(ring, zeros, SIZE, (off_t)slot * SIZE) != SIZE)
            return -1;
    return fsync(ring);
}

static int run(const char *path, const char *ack_path, long pause_ms)
{
    const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000 * 1000};
    int ring = open(path, O_RDWR | O_CREAT, 0600), ack = open(ack_path, O_RDWR | O_CREAT, 0644);
    time_t told = 0;
    uint64_t block[WORDS];

    if (ring < 0 || ack < 0)
        return fail("open");
    if (lseek(ring, 0, SEEK_END) < (off_t)SLOTS * SIZE && make_ring(ring))
        return fail("make");
    for (uint64_t number = last_number(ring) + 1;; number++) {
        char text[32];
        struct timespec now;

        fill(block, number);
        if (pwrite(ring, block, SIZE, (off_t)(number % SLOTS) * SIZE) != SIZE)
            return fail("write");
        if (fdatasync(ring))
            return fail("sync");
        snprintf(text, sizeof(text), "%020llu\n", (unsigned long long)number);
        if (pwrite(ack, text, strlen(text), 0) < 0)
            return fail("acknowledge");
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec != told) {
            told = now.tv_sec;
            printf("berth-guest ack n=%llu up=%ld end\n", (unsigned long long)number, (long)told);
            fflush(stdout);
        }
        nanosleep(&pause, NULL);
    }
}

int main(int count, char **argv)
{
    if (count == 3 && !strcmp(argv[1], "verify"))
        return verify(argv[2]);
    if (count == 5 && !strcmp(argv[1], "run"))
        return run(argv[2], argv[3], atol(argv[4]));
    return 2;
}
