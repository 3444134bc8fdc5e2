/*
 * pipe_queue - two stages, A (2 ms) and B (3 ms), with a pipe between them that holds four items.
 *
 * Answer: B is worth its share until it is as short as A (33 %), A nothing. The pipe is the queue: A
 * waits in write, B (when it is the quicker one) in read.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include pipe_queue.c -o pipe_queue
 */
#include "target.h"

#include <fcntl.h>

#include "message.h"
#include "threads.h"

static long a, b;
static int ends[2];

/* An item fills a page: then the pipe's places are its pages, and each read frees one. */
enum { ITEM = 4096, PLACES = 4 };

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void *first(void *unused)
{
    static const char item[ITEM];
    for (;;) {
        A();
        DO(write(ends[1], item, ITEM));
    }
    return unused;
}

int main(int argc, char **argv)
{
    static char item[ITEM];
    arguments(argc, argv);
    a = iterations("A", 2);
    b = iterations("B", 3);
    DO(pipe(ends));
    DO(fcntl(ends[1], F_SETPIPE_SZ, PLACES * ITEM));
    start("item");
    spawn(first, NULL);
    while (!over()) {
        DO(read(ends[0], item, ITEM));
        B();
        WHATIF_PROGRESS_NAMED("item");
        visited();
    }
    finish();
}
