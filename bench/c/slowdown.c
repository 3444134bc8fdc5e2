/* Workloads of one kind each, with a fixed amount of work. Each prints how long the work itself took: `took SECONDS`.
 *
 *   slowdown memory PASSES        four loops over arrays that fit into no cache, after McCalpin
 *   slowdown syscalls CALLS       calls of the kernel that do next to nothing
 *   slowdown faults ROUNDS        memory that is mapped, touched and given back
 *   slowdown pipes ROUNDS         two processes that wait for each other
 *   slowdown loopback REQUESTS    a client and a server, of 4 connections, over TCP
 *   slowdown locks ROUNDS         four threads that share a lock
 *   slowdown desktop WAKES        a timer of 60 Hz, and some work each time; the sum of the times from being due to being done
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void check(int is_right, const char *what)
{
    if (!is_right) {
        perror(what);
        exit(1);
    }
}

static void work(uint64_t units)
{
    uint64_t x = 88172645463325252u;
    for (uint64_t n = units * 1000; n > 0; n--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
}

static double memory(long passes)
{
    enum { LENGTH = 4 << 20 };
    double *a = malloc(3 * LENGTH * sizeof(double)), *b = a + LENGTH, *c = b + LENGTH;
    check(a != 0, "malloc");
    for (long i = 0; i < LENGTH; i++)
        a[i] = 1, b[i] = 2, c[i] = 0;
    double begin = now();
    for (long n = 0; n < passes; n++) {
        for (long i = 0; i < LENGTH; i++)
            c[i] = a[i];
        for (long i = 0; i < LENGTH; i++)
            b[i] = 3 * c[i];
        for (long i = 0; i < LENGTH; i++)
            c[i] = a[i] + b[i];
        for (long i = 0; i < LENGTH; i++)
            a[i] = b[i] + 3 * c[i];
        sink += (uint64_t)a[n % LENGTH];
        for (long i = 0; i < LENGTH; i += 4096)
            a[i] = 1;
    }
    return now() - begin;
}

static double syscalls(long calls)
{
    double begin = now();
    for (long n = 0; n < calls; n++)
        syscall(SYS_getppid);
    return now() - begin;
}

static double faults(long rounds)
{
    const size_t size = 4 << 20;
    double begin = now();
    for (long n = 0; n < rounds; n++) {
        char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(memory != MAP_FAILED, "mmap");
        for (size_t at = 0; at < size; at += 4096)
            memory[at] = 1;
        munmap(memory, size);
    }
    return now() - begin;
}

static double pipes(long rounds)
{
    int there[2], back[2];
    char byte = 0;
    check(!pipe(there) && !pipe(back), "pipe");
    double begin = now();
    pid_t child = fork();
    check(child >= 0, "fork");
    int in = child ? back[0] : there[0], out = child ? there[1] : back[1];
    for (long n = 0; n < rounds; n++) {
        if (child)
            check(write(out, &byte, 1) == 1, "write");
        check(read(in, &byte, 1) == 1, "read");
        work(1);
        if (!child)
            check(write(out, &byte, 1) == 1, "write");
    }
    if (!child)
        _exit(0);
    waitpid(child, 0, 0);
    return now() - begin;
}

enum { CONNECTIONS = 4, REQUEST = 200, ANSWER = 2000 };

static void *serve(void *listener)
{
    int poll = epoll_create1(0), left = CONNECTIONS;
    for (int n = 0; n < CONNECTIONS; n++) {
        struct epoll_event event = {.events = EPOLLIN};
        event.data.fd = accept(*(int *)listener, 0, 0);
        check(event.data.fd >= 0 && !epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event), "accept");
    }
    char buffer[ANSWER] = {0};
    while (left > 0) {
        struct epoll_event events[CONNECTIONS];
        int ready = epoll_wait(poll, events, CONNECTIONS, -1);
        for (int n = 0; n < ready; n++) {
            int connection = events[n].data.fd;
            if (recv(connection, buffer, REQUEST, MSG_WAITALL) != REQUEST) {
                close(connection);
                left--;
                continue;
            }
            work(2);
            check(send(connection, buffer, ANSWER, MSG_NOSIGNAL) == ANSWER, "send");
        }
    }
    return 0;
}

static double loopback(long requests)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), connections[CONNECTIONS];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    check(!bind(listener, (void *)&address, sizeof address) && !listen(listener, CONNECTIONS), "listen");
    getsockname(listener, (void *)&address, &length);
    pthread_t server;
    pthread_create(&server, 0, serve, &listener);
    for (int n = 0; n < CONNECTIONS; n++) {
        connections[n] = socket(AF_INET, SOCK_STREAM, 0);
        check(!connect(connections[n], (void *)&address, sizeof address), "connect");
    }
    char buffer[ANSWER] = {0};
    double begin = now();
    for (long n = 0; n < requests; n++) {
        for (int i = 0; i < CONNECTIONS; i++)
            check(send(connections[i], buffer, REQUEST, MSG_NOSIGNAL) == REQUEST, "send");
        for (int i = 0; i < CONNECTIONS; i++)
            check(recv(connections[i], buffer, ANSWER, MSG_WAITALL) == ANSWER, "recv");
    }
    double took = now() - begin;
    for (int i = 0; i < CONNECTIONS; i++)
        close(connections[i]);
    pthread_join(server, 0);
    return took;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *contend(void *rounds)
{
    for (long n = *(long *)rounds; n > 0; n--) {
        pthread_mutex_lock(&lock);
        work(1);
        pthread_mutex_unlock(&lock);
        work(3);
    }
    return 0;
}

static double locks(long rounds)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    double begin = now();
    for (int n = 0; n < THREADS; n++)
        pthread_create(&threads[n], 0, contend, &rounds);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], 0);
    return now() - begin;
}

static double desktop(long wakes)
{
    double took = 0;
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (long n = 0; n < wakes; n++) {
        due.tv_nsec += 1000000000 / 60;
        if (due.tv_nsec >= 1000000000)
            due.tv_sec++, due.tv_nsec -= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
        work(1500);
        took += now() - (due.tv_sec + due.tv_nsec * 1e-9);
    }
    return took;
}

int main(int count, char **arguments)
{
    const struct {
        const char *name;
        double (*run)(long);
    } kinds[] = {{"memory", memory}, {"syscalls", syscalls}, {"faults", faults},   {"pipes", pipes},
                 {"loopback", loopback}, {"locks", locks},   {"desktop", desktop}};
    for (size_t n = 0; count == 3 && n < sizeof kinds / sizeof *kinds; n++)
        if (!strcmp(arguments[1], kinds[n].name)) {
            printf("took %.9f\n", kinds[n].run(atol(arguments[2])));
            return 0;
        }
    fprintf(stderr, "slowdown KIND TIMES\n");
    return 2;
}
