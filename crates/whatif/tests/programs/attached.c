/* Threads that make calls for ever and check what they return, and threads that come and go: whatever is done to this process from outside, nothing of it may be seen
   here. They take less than a CPU, because many tests run beside one another. Prints "ready" when all run, and every failure; ends with status 1 after the first, and with 0 at end of standard input. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Atomic unsigned long rounds[16];

#ifndef __GLIBC__
/* To the calling thread. */
static int pthread_sigqueue(pthread_t thread, int signal, union sigval value) {
    (void)thread;
    siginfo_t info = {.si_signo = signal, .si_code = SI_QUEUE};
    info.si_value = value;
    return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, &info);
}
#endif

static void fail(const char *what, long is, long should) {
    printf("FAILED %s: %ld, not %ld (errno %d)\n", what, is, should, errno);
    fflush(stdout);
    _exit(1);
}

#define CHECK(what, is, should)                  \
    do {                                         \
        long is_ = (long)(is);                   \
        if (is_ != (long)(should))               \
            fail(what, is_, (long)(should));     \
    } while (0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Registers and vectors have to survive. */
__attribute__((noinline)) void work(void) {
    volatile double sum = 0;
    double x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < 20000; i++) {
        for (int k = 0; k < 8; k++)
            x[k] = x[k] * 1.0000001 + 0.5;
        hash = (hash ^ (uint64_t)i) * 1099511628211u;
    }
    for (int k = 0; k < 8; k++)
        sum += x[k];
    static _Atomic uint64_t first_hash, first_sum;
    uint64_t bits, none = 0;
    double copy = sum;
    memcpy(&bits, &copy, 8);
    if (!atomic_compare_exchange_strong(&first_hash, &none, hash))
        CHECK("hash", none, hash);
    none = 0;
    if (!atomic_compare_exchange_strong(&first_sum, &none, bits))
        CHECK("sum", none, bits);
}

static void *computes(void *which) {
    for (;;) {
        work();
        rounds[(long)which]++;
        usleep(200);
    }
    return 0;
}

/* Now and then, so that others get to a CPU as well. */
static void pause_in(unsigned long round) {
    if (round % 8 == 7)
        usleep(2000);
}

static int pipes[2], sockets[2];

static void *writes(void *which) {
    for (uint64_t n = 0;; n++) {
        CHECK("write", write(pipes[1], &n, 8), 8);
        uint64_t back;
        CHECK("recv", recv(sockets[0], &back, 8, 0), 8);
        CHECK("answer", back, n + 1);
        pause_in(rounds[(long)which]++);
    }
    return 0;
}

static void *reads(void *which) {
    for (uint64_t n = 0;; n++) {
        uint64_t is;
        CHECK("read", read(pipes[0], &is, 8), 8);
        CHECK("number", is, n);
        is++;
        CHECK("send", send(sockets[1], &is, 8, 0), 8);
        rounds[(long)which]++;
    }
    return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn;

static void *turns(void *which) {
    long own = (long)which & 1;
    for (;;) {
        CHECK("lock", pthread_mutex_lock(&mutex), 0);
        while ((turn & 1) != own)
            CHECK("wait", pthread_cond_wait(&turned, &mutex), 0);
        turn++;
        CHECK("broadcast", pthread_cond_broadcast(&turned), 0);
        CHECK("unlock", pthread_mutex_unlock(&mutex), 0);
        pause_in(rounds[(long)which]++);
    }
    return 0;
}

/* Waits that a signal would end early. The end of a child may do that without anybody's doing: where a C library blocks all signals while it forks, as musl does, and the child has
   ended before that is over, the kernel looks for another thread that takes SIGCHLD. */
static void *sleeps(void *which) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    CHECK("sigmask", pthread_sigmask(SIG_BLOCK, &ends, 0), 0);
    int epoll = epoll_create1(0), event = eventfd(0, 0);
    struct epoll_event wanted = {.events = EPOLLIN};
    CHECK("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted), 0);
    for (;;) {
        struct timespec time = {0, 3000000};
        double begin = now();
        CHECK("nanosleep", nanosleep(&time, 0), 0);
        if (now() - begin < 0.003)
            fail("nanosleep is too short", (now() - begin) * 1e6, 3000);
        struct epoll_event got;
        begin = now();
        CHECK("epoll_wait", epoll_wait(epoll, &got, 1, 20), 0);
        if (now() - begin < 0.0199)
            fail("epoll_wait is too short", (now() - begin) * 1e6, 20000);
        struct pollfd one = {event, POLLIN, 0};
        CHECK("poll", poll(&one, 1, 7), 0);
        rounds[(long)which]++;
    }
    return 0;
}

static void *short_lived(void *argument) {
    if ((long)argument % 3 == 0)
        work();
    usleep(100);
    if ((long)argument % 5 == 0)
        pthread_exit((void *)((long)argument + 1));
    return (void *)((long)argument + 1);
}

static void *creates(void *which) {
    for (long n = 0;; n++) {
        pthread_t thread[3];
        for (long k = 0; k < 3; k++)
            CHECK("create", pthread_create(&thread[k], 0, short_lived, (void *)(n + k)), 0);
        for (long k = 0; k < 3; k++) {
            void *result;
            CHECK("join", pthread_join(thread[k], &result), 0);
            CHECK("result", (long)result, n + k + 1);
        }
        usleep(1000);
        rounds[(long)which]++;
    }
    return 0;
}

static _Atomic long caught;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (info->si_value.sival_int != 42)
        fail("value", info->si_value.sival_int, 42);
    caught++;
}

static void odd(int signal) {
    (void)signal;
}

static void even(int signal) {
    (void)signal;
}

static void *signals(void *which) {
    void (*former)(int) = SIG_DFL;
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGTRAP);
    CHECK("sigmask", pthread_sigmask(SIG_BLOCK, &blocked, 0), 0);
    for (;;) {
        long was = caught;
        union sigval value = {.sival_int = 42};
        CHECK("sigqueue", pthread_sigqueue(pthread_self(), SIGUSR1, value), 0);
        if (caught <= was)
            fail("caught", caught, was + 1);
        CHECK("mask", pthread_sigmask(SIG_BLOCK, 0, &before), 0);
        CHECK("blocks USR2", sigismember(&before, SIGUSR2), 1);
        CHECK("does not block USR1", sigismember(&before, SIGUSR1), 0);
        struct sigaction now;
        CHECK("sigaction", sigaction(SIGUSR1, 0, &now), 0);
        CHECK("handler", (long)now.sa_sigaction, (long)handler);
        void (*next)(int) = former == odd ? even : odd;
        CHECK("former handler", (long)signal(SIGWINCH, next), (long)former);
        former = next;
        usleep(500);
        rounds[(long)which]++;
    }
    return 0;
}

/* Children see the same, and their ends are seen here. */
static void *forks(void *which) {
    for (long n = 0;; n++) {
        pid_t child = fork();
        if (child == 0) {
            char byte = 1;
            int own[2];
            if (pipe(own) || write(own[1], &byte, 1) != 1 || read(own[0], &byte, 1) != 1)
                _exit(3);
            if (n % 4 == 0)
                execl("/bin/true", "true", (char *)0);
            _exit(7);
        }
        if (child < 0)
            fail("fork", child, 1);
        int status;
        CHECK("waitpid", waitpid(child, &status, 0), child);
        CHECK("status", status, n % 4 == 0 ? 0 : 7 << 8);
        usleep(20000);
        rounds[(long)which]++;
    }
    return 0;
}

/* Where the threads are, to standard error. */
static void say_where_threads_are(void) {
    fflush(stdout);
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c", "cd /proc/$PPID && grep . task/*/syscall task/*/wchan >&2; grep r-x maps >&2", (char *)0);
        _exit(127);
    }
    sleep(1);
}

int main(int argc, char **argv) {
    int more = argc > 1 ? atoi(argv[1]) : 0;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK("sigaction", sigaction(SIGUSR1, &action, 0), 0);
    CHECK("pipe", pipe(pipes), 0);
    CHECK("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    void *(*all[])(void *) = {computes, writes, reads, sleeps, turns, turns, creates, signals, forks};
    long count = sizeof all / sizeof *all;
    for (long n = 0; n < count; n++) {
        pthread_t thread;
        CHECK("create", pthread_create(&thread, 0, all[n], (void *)n), 0);
    }
    for (long n = 0; n < more; n++) {
        pthread_t thread;
        CHECK("create", pthread_create(&thread, 0, sleeps, (void *)(long)15), 0);
    }
    printf("ready\n");
    fflush(stdout);
    char word;
    unsigned long seen[16] = {0};
    /* Each byte asks whether all go on. */
    while (read(0, &word, 1) == 1) {
        if (word != '?')
            continue;
        for (long n = 0; n < count; n++) {
            double begin = now();
            while (rounds[n] == seen[n]) {
                if (now() - begin > 60) {
                    printf("FAILED thread %ld does not go on\n", n);
                    say_where_threads_are();
                    _exit(1);
                }
                usleep(1000);
            }
            seen[n] = rounds[n];
        }
        printf("fine\n");
        fflush(stdout);
    }
    return 0;
}
