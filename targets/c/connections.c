/*
 * connections - a client does A (2 ms), connects to a server, asks, and waits for the answer; the server
 * does B (3 ms), answers and closes the connection. unix=1 connects to a named unix socket instead of
 * TCP on the loopback address; epoll=1 has the server wait with epoll for both connections and requests.
 *
 * Answer: one waits while the other works: A s·40 %, B s·60 %. Every round has new descriptors, and
 * what wakes the server first is the connection.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include connections.c -o connections
 */
#include <sys/epoll.h>

#include "target.h"

#include "sockets.h"
#include "threads.h"

static long a, b;
static struct place place;
static int listener, with_epoll;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void answer(int connection)
{
    uint64_t message;
    DO(read(connection, &message, sizeof message));
    B();
    DO(write(connection, &message, sizeof message));
    DO(close(connection));
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    DO(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

static void *serve(void *unused)
{
    int epoll;
    DO(epoll = epoll_create1(0));
    watch(epoll, listener);
    for (;;) {
        struct epoll_event event = {.data.fd = listener};
        if (with_epoll)
            DO(epoll_wait(epoll, &event, 1, -1));
        if (event.data.fd != listener) {
            answer(event.data.fd);
            continue;
        }
        const int connection = accept_at(&place, listener);
        if (with_epoll)
            watch(epoll, connection);
        else
            answer(connection);
    }
    return unused;
}

int main(int argc, char **argv)
{
    uint64_t message = 0;
    arguments(argc, argv);
    a = iterations("A", 2);
    b = iterations("B", 3);
    with_epoll = (int)argument("epoll", 0);
    listener = listen_at(&place, argument("unix", 0) > 0 ? AF_UNIX : AF_INET);
    start("round");
    spawn(serve, NULL);
    while (!over()) {
        A();
        const int connection = connect_to(&place);
        DO(write(connection, &message, sizeof message));
        DO(read(connection, &message, sizeof message));
        DO(close(connection));
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
