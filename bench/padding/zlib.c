/*
 * zlib.c - a load for zlib: `program FILE THREADS`.
 *
 * The threads compress blocks of the file, whichever comes next, and hand them in order to one that checks a block by
 * decompressing it. At most eight blocks are under way. When the file has ended it begins again, endlessly.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zlib.h"

enum { BLOCK = 32768, ROOM = 65536, UNDER_WAY = 8 };

struct slot {
    unsigned char data[ROOM];
    uLongf length;
    int full;
};

static unsigned char *text;
static size_t blocks;
static struct slot slots[UNDER_WAY];
static size_t next, checked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void fail(const char *what)
{
    fprintf(stderr, "zlib: %s\n", what);
    exit(1);
}

static void *compress_for_ever(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (next - checked >= UNDER_WAY)
            pthread_cond_wait(&changed, &lock);
        const size_t number = next++;
        pthread_mutex_unlock(&lock);
        struct slot *slot = &slots[number % UNDER_WAY];
        slot->length = ROOM;
        if (compress2(slot->data, &slot->length, text + number % blocks * BLOCK, BLOCK, 6) != Z_OK)
            fail("a block was not compressed");
        pthread_mutex_lock(&lock);
        slot->full = 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

/* Called once for each block: the progress of the program. */
static __attribute__((noinline)) void check(const struct slot *slot, size_t number)
{
    static unsigned char again[BLOCK];
    uLongf length = BLOCK;
    if (uncompress(again, &length, slot->data, slot->length) != Z_OK || length != BLOCK ||
        memcmp(again, text + number % blocks * BLOCK, BLOCK) != 0)
        fail("a block came back as another");
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fprintf(stderr, "usage: %s FILE THREADS\n", arguments[0]);
        return 2;
    }
    FILE *file = fopen(arguments[1], "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        fail("the file cannot be read");
    blocks = (size_t)ftell(file) / BLOCK;
    text = malloc(blocks * BLOCK);
    rewind(file);
    if (!text || blocks == 0 || fread(text, BLOCK, blocks, file) != blocks)
        fail("the file cannot be read");
    for (int number = 0; number < atoi(arguments[2]); number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, compress_for_ever, NULL) != 0)
            fail("no thread");
    }
    for (;;) {
        struct slot *slot = &slots[checked % UNDER_WAY];
        pthread_mutex_lock(&lock);
        while (!slot->full)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        check(slot, checked);
        pthread_mutex_lock(&lock);
        slot->full = 0;
        checked++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
}
