/*
 * event_loop - a client asks over loopback TCP; the loop reads the request, does A (2 ms) and hands it to a
 * pool of two threads; one of them does B (3 ms) and wakes the loop with an eventfd; the loop answers. The
 * loop waits in one epoll_wait for the socket, the eventfd, and a tick every tick_ms (default 1) from a
 * timerfd (timer=0), the timeout of epoll_wait (timer=1), or a timerfd that is set anew before each wait
 * (timer=2). tick_ms=0 is no tick.
 *
 * Answer: one request at a time, so A s·40 %, B s·60 %. Ticks do nothing, and nothing waits for them.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include event_loop.c -o event_loop
 */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "target.h"

#include "queue.h"
#include "sockets.h"
#include "threads.h"

enum { POOL = 2 };

static long a, b, tick;
static int timer, epoll, done, ticks = -1, connection;
static struct place place;
static struct queue jobs = QUEUE(8);

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void *pool(void *unused)
{
    const uint64_t one = 1;
    for (;;) {
        pop(&jobs);
        B();
        DO(write(done, &one, sizeof one));
    }
    return unused;
}

static void set_timer(long first, long period)
{
    const struct itimerspec time = {{period / 1000000000, period % 1000000000},
                                    {first / 1000000000, first % 1000000000}};
    DO(timerfd_settime(ticks, 0, &time, NULL));
}

static void *loop(void *unused)
{
    for (;;) {
        uint64_t message = 0;
        struct epoll_event event;
        int ready;
        if (timer == 2 && tick > 0)
            set_timer(tick, 0);
        DO(ready = epoll_wait(epoll, &event, 1, timer == 1 && tick > 0 ? (int)(tick / 1000000) : -1));
        if (ready == 0)
            continue;
        DO(read(event.data.fd, &message, sizeof message));
        if (event.data.fd == connection) {
            A();
            push(&jobs);
        } else if (event.data.fd == done) {
            DO(write(connection, &message, sizeof message));
        }
    }
    return unused;
}

static void watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    DO(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

int main(int argc, char **argv)
{
    uint64_t message = 0;
    arguments(argc, argv);
    a = iterations("A", 2);
    b = iterations("B", 3);
    timer = (int)argument("timer", 0);
    tick = (long)(argument("tick_ms", 1) * 1e6);
    DO(epoll = epoll_create1(0));
    DO(done = eventfd(0, 0));
    DO(ticks = timerfd_create(CLOCK_MONOTONIC, 0));
    const int listener = listen_at(&place, AF_INET);
    const int client = connect_to(&place);
    connection = accept_at(&place, listener);
    watch(connection);
    watch(done);
    watch(ticks);
    if (timer == 0 && tick > 0)
        set_timer(tick, tick);
    start("round");
    for (int i = 0; i < POOL; i++)
        spawn(pool, NULL);
    spawn(loop, NULL);
    while (!over()) {
        DO(write(client, &message, sizeof message));
        DO(read(client, &message, sizeof message));
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
