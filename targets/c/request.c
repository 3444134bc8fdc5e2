/*
 * request - a client does A (2 ms) and asks a server, which does B (3 ms) and answers. They talk
 * through=0 two pipes, through=1 a socketpair, through=2 two eventfds, waited for with epoll,
 * through=3 two signals, through=4 a TCP connection on the loopback address, through=5 a connection to
 * a named unix socket, or through=6 the TCP connection, of which the server's end is waited for with
 * epoll.
 *
 * Answer: one waits while the other works: A s·40 %, B s·60 %. Both are woken by the other, though
 * the calls look like those that wait for the world.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include request.c -o request
 */
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "target.h"

#include "sockets.h"
#include "threads.h"

static long a, b;
static int signals;

/* epoll is -1 where reading itself waits. in and out are descriptors, or signals. */
static struct side {
    int in, out, epoll;
} client = {-1, -1, -1}, server = {-1, -1, -1};

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

/* Eight bytes, as an eventfd wants them. */
static void tell(const struct side *side)
{
    const uint64_t one = 1;
    if (signals)
        DO(kill(getpid(), side->out));
    else
        DO(write(side->out, &one, sizeof one));
}

static void hear(const struct side *side)
{
    uint64_t message;
    struct epoll_event event;
    if (signals) {
        int signal;
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, side->in);
        if (sigwait(&set, &signal) != 0)
            exit(1);
        return;
    }
    if (side->epoll >= 0)
        DO(epoll_wait(side->epoll, &event, 1, -1));
    DO(read(side->in, &message, sizeof message));
}

static void *serve(void *unused)
{
    for (;;) {
        hear(&server);
        B();
        tell(&server);
    }
    return unused;
}

static void wait_with_epoll(struct side *side)
{
    struct epoll_event event = {.events = EPOLLIN};
    DO(side->epoll = epoll_create1(0));
    DO(epoll_ctl(side->epoll, EPOLL_CTL_ADD, side->in, &event));
}

static void connect_through(int through)
{
    int pair[2];
    if (through == 0) {
        DO(pipe(pair));
        server.in = pair[0], client.out = pair[1];
        DO(pipe(pair));
        client.in = pair[0], server.out = pair[1];
    } else if (through == 1) {
        DO(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        client.in = client.out = pair[0];
        server.in = server.out = pair[1];
    } else if (through == 2) {
        DO(client.in = eventfd(0, 0));
        DO(server.in = eventfd(0, 0));
        wait_with_epoll(&client);
        wait_with_epoll(&server);
        client.out = server.in, server.out = client.in;
    } else if (through >= 4) {
        struct place place;
        const int listener = listen_at(&place, through == 5 ? AF_UNIX : AF_INET);
        client.in = client.out = connect_to(&place);
        server.in = server.out = accept_at(&place, listener);
        if (through == 6)
            wait_with_epoll(&server);
    } else {
        /* Blocked in all threads, so that nothing but sigwait takes them. */
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        signals = 1;
        client.in = server.out = SIGUSR1;
        server.in = client.out = SIGUSR2;
    }
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 2);
    b = iterations("B", 3);
    connect_through((int)argument("through", 0));
    start("round");
    spawn(serve, NULL);
    while (!over()) {
        A();
        tell(&client);
        hear(&client);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
