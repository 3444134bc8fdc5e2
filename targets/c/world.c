/*
 * world - a server of requests from another process, each A (0.4 ms) and then B (0.6 ms).
 *
 *   over=0  TCP on the loopback address        open=0  a closed loop: each of the clients waits for its answer and
 *   over=1  UDP                                        thinks (think_ms, exponential) before it asks again
 *   over=2  a pipe, without answers            open=1  an open loop: requests come every gap_ms (exponential), to the
 *   over=3  streams of a unix socket                   clients' connections in turn, whatever is answered
 *                                              open=2  the same in bursts of eight
 *                                              open=3  the same at regular intervals
 *                                              open=4  both: an open loop, and one more client in a closed one
 *
 *   clients=N    connections, or sockets of UDP (1)
 *   workers=N    threads of the server (1), each with its own share of the connections; with once=1 they take turns
 *   epoll=1      they wait with epoll_wait; otherwise in the call that reads, for one connection each
 *   edge=1       and are told only once (EPOLLET), so they read until nothing is left
 *   once=1       a connection for each request, which the server accepts
 *   closes=1     now and then the server starts a process that closes its copy of the listener and ends
 *   busy_ms=0.5  what a client computes after each answer, in a closed loop (0): it wants the server's CPUs
 *
 * Answer: in an open loop 0 for both as long as the server has idle time; in a closed loop the work's share of
 * the clients' rounds, less what they wait for each other.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include world.c -o world
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "target.h"
#include "threads.h"

#define MOST 256

static long a, b, busy;
static int over_what, open_loop, clients, workers, with_epoll, edge, once, closes;
static double gap, think;
static int listener, fds[MOST];
static int port; /* of a unix socket, the number in its name */

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void serve(void)
{
    WHATIF_BEGIN("request");
    A();
    B();
    WHATIF_END("request");
    WHATIF_PROGRESS_NAMED("served");
    visited();
}

static void failed(const char *what)
{
    perror(what);
    exit(1);
}

/* Where the server listens. */
union place {
    struct sockaddr any;
    struct sockaddr_in inet;
    struct sockaddr_un name;
};

/* The place with this number: a port of the loopback address, or an abstract name of which it is a part. Returns the length of its address. */
static socklen_t find(int number, union place *place)
{
    memset(place, 0, sizeof *place);
    if (over_what == 3) {
        place->name.sun_family = AF_UNIX;
        const int length = snprintf(place->name.sun_path + 1, 64, "whatif-world-%d", number);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    }
    place->inet.sin_family = AF_INET;
    place->inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place->inet.sin_port = htons((uint16_t)number);
    return sizeof place->inet;
}

static int new_socket(void)
{
    return socket(over_what == 3 ? AF_UNIX : AF_INET, over_what == 1 ? SOCK_DGRAM : SOCK_STREAM, 0);
}

/* Small messages are sent at once. */
static void without_delay(int fd)
{
    const int one = 1;
    if (over_what == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Listens at a place that no other process uses; returns its number. */
static int listen_there(void)
{
    union place place;
    const int wished = over_what == 3 ? (int)getpid() : 0; /* 0 is any port */
    socklen_t length = find(wished, &place);
    listener = new_socket();
    if (bind(listener, &place.any, length) != 0 || (over_what != 1 && listen(listener, 4096) != 0))
        failed("listen");
    if (over_what == 3)
        return wished;
    if (getsockname(listener, &place.any, &length) != 0)
        failed("getsockname");
    return ntohs(place.inet.sin_port);
}

/* One request from fd, and its answer; 0 when there is none, or no more. */
static int answer(int fd, int flags)
{
    uint64_t message;
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    if (over_what == 2) {
        if (read(fd, &message, sizeof message) != sizeof message)
            return 0;
        serve();
        return 1;
    }
    if (over_what == 1) {
        if (recvfrom(fd, &message, sizeof message, flags, (struct sockaddr *)&from, &length) != sizeof message)
            return 0;
        serve();
        return sendto(fd, &message, sizeof message, 0, (struct sockaddr *)&from, length) == sizeof message;
    }
    if (recv(fd, &message, sizeof message, flags) != sizeof message)
        return 0;
    serve();
    return send(fd, &message, sizeof message, MSG_NOSIGNAL) == sizeof message;
}

static void *work(void *number)
{
    const int first = (int)(long)number;
    if (once) {
        for (;;) {
            const int fd = accept(listener, NULL, NULL);
            if (fd < 0)
                failed("accept");
            answer(fd, 0);
            close(fd);
        }
    }
    if (!with_epoll) {
        while (answer(fds[first], 0))
            ;
        return NULL;
    }
    const int instance = epoll_create1(0);
    for (int i = first; i < clients; i += workers) {
        struct epoll_event event = {.events = EPOLLIN | (edge ? EPOLLET : 0), .data.fd = fds[i]};
        if (epoll_ctl(instance, EPOLL_CTL_ADD, fds[i], &event) != 0)
            failed("epoll_ctl");
    }
    for (;;) {
        struct epoll_event events[64];
        const int ready = epoll_wait(instance, events, 64, -1);
        for (int i = 0; i < ready; i++)
            while (answer(events[i].data.fd, MSG_DONTWAIT) && edge)
                ;
    }
    return NULL;
}

/* What servers do that start programs, and workers that end. */
static void close_a_copy(void)
{
    const pid_t child = fork();
    if (child == 0) {
        close(listener);
        _exit(0);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* The other process from here on. It is executed and not only forked, so that with --no-follow nothing profiles it. */

static uint64_t state = 88172645463325252u;

static double uniform(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (double)(*random >> 11) / (double)(1ull << 53);
}

/* Drawn from an exponential distribution. */
static double exponential(double mean, uint64_t *random)
{
    /* -log(u) = k log 2 - log(m) with m in [0.5, 1); the logarithm of m by the series of its inverse hyperbolic tangent. */
    double m = 1 - uniform(random), log_ = 0;
    for (; m < 0.5; m *= 2)
        log_ += 0.6931471805599453;
    const double z = (1 - m) / (1 + m);
    for (double power = z, n = 1; n < 40; n += 2, power *= z * z)
        log_ += 2 * power / n;
    return mean * log_;
}

static void wait_until(double due)
{
    struct timespec time = {(time_t)due, (long)((due - (double)(time_t)due) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
}

static int connected(void)
{
    union place place;
    const socklen_t length = find(port, &place);
    const int fd = new_socket();
    if (connect(fd, &place.any, length) != 0)
        failed("connect");
    without_delay(fd);
    return fd;
}

static void *ask_and_think(void *number)
{
    uint64_t message = 0, random = state + 0x9e3779b97f4a7c15u * (uint64_t)(1 + (long)number);
    int fd = once ? -1 : fds[(long)number];
    for (;;) {
        if (once)
            fd = connected();
        if (send(fd, &message, sizeof message, MSG_NOSIGNAL) != sizeof message)
            _exit(0);
        if (recv(fd, &message, sizeof message, 0) != sizeof message)
            _exit(0);
        if (once)
            close(fd);
        WORK(busy);
        if (think > 0)
            wait_until(now() + exponential(think, &random));
    }
    return NULL;
}

static void *drain(void *unused)
{
    struct pollfd all[MOST];
    for (int i = 0; i < clients; i++)
        all[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    for (;;) {
        char messages[4096];
        if (poll(all, (nfds_t)clients, -1) <= 0)
            continue;
        for (int i = 0; i < clients; i++)
            if (all[i].revents != 0 && recv(all[i].fd, messages, sizeof messages, MSG_DONTWAIT) == 0)
                _exit(0);
    }
    return unused;
}

static void ask_on_time(int pipe_end)
{
    double due = now();
    uint64_t message = 0;
    for (unsigned turn = 0;; turn++) {
        switch (open_loop) {
        case 2:
            due += turn % 8 == 0 ? exponential(8 * gap, &state) : 0;
            break;
        case 3:
            due += gap;
            break;
        default:
            due += exponential(gap, &state);
        }
        wait_until(due);
        if (once) {
            const int fd = connected();
            if (send(fd, &message, sizeof message, MSG_NOSIGNAL) != sizeof message)
                _exit(0);
            /* The answer is not waited for: which side closes first does not matter. */
            if (fds[turn % MOST] > 0)
                close(fds[turn % MOST]);
            fds[turn % MOST] = fd;
            continue;
        }
        const int fd = over_what == 2 ? pipe_end : fds[turn % (unsigned)clients];
        if (write(fd, &message, sizeof message) != sizeof message)
            _exit(0);
    }
}

static void be_client(int pipe_end)
{
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);
    state ^= (uint64_t)(now() * 1e9) * 0x9e3779b97f4a7c15u;
    port = (int)argument("port", 0);
    for (int i = 0; i < clients && over_what != 2 && !once; i++)
        fds[i] = connected();
    if (open_loop == 0) {
        for (long i = 1; i < clients; i++)
            spawn(ask_and_think, (void *)i);
        ask_and_think((void *)0);
    }
    if (open_loop == 4)
        spawn(ask_and_think, (void *)(long)--clients);
    if (over_what != 2 && !once)
        spawn(drain, NULL);
    ask_on_time(pipe_end);
}

int main(int count, char **values)
{
    arguments(count, values);
    a = iterations("A", 0.4);
    b = iterations("B", 0.6);
    over_what = (int)argument("over", 0);
    open_loop = (int)argument("open", 0);
    clients = (int)argument("clients", 1);
    workers = (int)argument("workers", 1);
    with_epoll = (int)argument("epoll", 0);
    edge = (int)argument("edge", 0);
    once = (int)argument("once", 0);
    closes = (int)argument("closes", 0);
    gap = argument("gap_ms", 2) / 1e3;
    think = argument("think_ms", 0) / 1e3;
    busy = (long)(argument("busy_ms", 0) * ITERATIONS_PER_MS);
    if (clients < 1 || clients > MOST || workers < 1 || workers > MOST) {
        fprintf(stderr, "world: 1 to %d clients and workers\n", MOST);
        return 2;
    }
    const int pipe_end = (int)argument("pipe", -1);
    if (argument("client", 0) > 0) {
        argument("seconds", 10);
        be_client(pipe_end);
    }
    int ends[2] = {-1, -1};
    if (over_what == 2 && pipe(ends) != 0)
        failed("pipe");
    if (over_what != 2)
        port = listen_there();
    if (fork() == 0) {
        char texts[3][32], *others[count + 4];
        memcpy(others, values, (size_t)count * sizeof *values);
        snprintf(texts[0], sizeof texts[0], "client=1");
        snprintf(texts[1], sizeof texts[1], "port=%d", port);
        snprintf(texts[2], sizeof texts[2], "pipe=%d", ends[1]);
        for (int i = 0; i < 3; i++)
            others[count + i] = texts[i];
        others[count + 3] = NULL;
        execv("/proc/self/exe", others);
        failed("execv");
    }
    for (int i = 0; i < clients && (over_what == 0 || over_what == 3) && !once; i++) {
        if ((fds[i] = accept(listener, NULL, NULL)) < 0)
            failed("accept");
        without_delay(fds[i]);
    }
    if (over_what == 2) {
        close(ends[1]);
        fds[0] = ends[0];
        clients = 1;
    } else if (over_what == 1) {
        for (int i = 0; i < workers; i++)
            fds[i] = listener;
        clients = workers;
    }
    start("served");
    for (long i = 0; i < workers; i++)
        spawn(work, (void *)i);
    for (int rounds = 0; !over(); rounds++) {
        usleep(20000);
        if (closes && rounds % 10 == 0)
            close_a_copy();
    }
    finish();
}
