/*
 * rearm - A (2 ms) writes items to a pipe that holds four; two workers wait for the pipe with one epoll
 * instance and EPOLLONESHOT: the one that is woken reads an item, does B (3 ms) and arms the pipe again
 * with EPOLL_CTL_MOD.
 *
 * Answer: only one worker at a time does B, so B is worth its share until it is as short as A (33 %), A
 * nothing. Mostly there are items left, and what wakes a worker is the other one's epoll_ctl.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include rearm.c -o rearm
 */
#include "target.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include "message.h"
#include "threads.h"

static long a, b;
static int ends[2], epoll;

/* As in pipe_queue: an item fills a page. */
enum { ITEM = 4096, PLACES = 4 };

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void arm(int operation)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};
    DO(epoll_ctl(epoll, operation, ends[0], &event));
}

static void take(void)
{
    static __thread char item[ITEM];
    struct epoll_event event;
    DO(epoll_wait(epoll, &event, 1, -1));
    DO(read(ends[0], item, ITEM));
    B();
    WHATIF_PROGRESS_NAMED("item");
    visited();
    arm(EPOLL_CTL_MOD);
}

static void *work(void *unused)
{
    for (;;)
        take();
    return unused;
}

static void *make(void *unused)
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
    arguments(argc, argv);
    a = iterations("A", 2);
    b = iterations("B", 3);
    DO(pipe(ends));
    DO(fcntl(ends[1], F_SETPIPE_SZ, PLACES * ITEM));
    DO(epoll = epoll_create1(0));
    arm(EPOLL_CTL_ADD);
    start("item");
    spawn(make, NULL);
    spawn(work, NULL);
    /* The two workers take turns: who waits is woken by the one that arms. */
    while (!over())
        take();
    finish();
}
