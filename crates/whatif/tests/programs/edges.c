/*
 * A server whose events are told once, and clients in another process that connect anew all the time. "edges": EPOLLET, one thread, which is the kind
 * of program whose events are put off. "one_shot": EPOLLONESHOT, and two more threads.
 * Every connection has a structure of its own, which events point to: one that comes after its connection was closed aborts, and a client
 * whose request is never answered says so. Prints "done".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <whatif.h>

#define CLIENTS 8
#define ALIVE 0x1234567890abcdefu

struct connection {
    uint64_t alive;
    int fd;
    struct connection *next;
};

static int instance, one_shot;
static struct connection *unused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static uint64_t work(uint64_t x)
{
    for (volatile int i = 0; i < 100000; i++)
        ;
    WHATIF_PROGRESS_NAMED("answered");
    return x + 1;
}

static uint32_t wanted(void)
{
    return EPOLLIN | EPOLLRDHUP | (one_shot ? EPOLLONESHOT : EPOLLET | EPOLLOUT);
}

static void end(struct connection *this)
{
    /* Structures are used again, and so are descriptors: once it is unlocked it may be that of another connection. */
    const int fd = this->fd;
    pthread_mutex_lock(&lock);
    this->alive = 0;
    this->next = unused;
    unused = this;
    pthread_mutex_unlock(&lock);
    close(fd);
}

static void accept_one(int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    pthread_mutex_lock(&lock);
    struct connection *this = unused;
    if (this)
        unused = this->next;
    pthread_mutex_unlock(&lock);
    if (!this)
        this = malloc(sizeof *this);
    *this = (struct connection){.alive = ALIVE, .fd = fd};
    struct epoll_event event = {.events = wanted(), .data.ptr = this};
    if (epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) != 0)
        exit(8);
}

static void answer(struct connection *this)
{
    uint64_t message;
    ssize_t length;
    if (this->alive != ALIVE)
        abort();
    while ((length = recv(this->fd, &message, sizeof message, MSG_DONTWAIT)) == sizeof message) {
        message = work(message);
        send(this->fd, &message, sizeof message, MSG_NOSIGNAL);
    }
    if (length == 0 || errno != EAGAIN) {
        end(this);
    } else if (one_shot) {
        struct epoll_event event = {.events = wanted(), .data.ptr = this};
        epoll_ctl(instance, EPOLL_CTL_MOD, this->fd, &event);
    }
}

/* Events that point to nothing are of the listener, which only the program with one thread watches. */
static void serve(int listener, int timeout)
{
    struct epoll_event events[4];
    const int ready = epoll_wait(instance, events, 4, timeout);
    for (int i = 0; i < ready; i++) {
        if (events[i].data.ptr)
            answer(events[i].data.ptr);
        else
            accept_one(listener);
    }
}

static void *serve_for_ever(void *unneeded)
{
    for (;;)
        serve(-1, -1);
    return unneeded;
}

static struct sockaddr_in address;
static double seconds;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *ask(void *number)
{
    const double until = now() + seconds;
    uint64_t request = (uintptr_t)number << 32;
    while (now() < until) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        const struct timeval patience = {.tv_sec = 90};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            exit(4);
        for (int i = 0; i < 40; i++) {
            uint64_t answer = 0;
            send(fd, &request, sizeof request, MSG_NOSIGNAL);
            if (recv(fd, &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
                exit(3); /* never answered */
            if (answer != ++request)
                exit(5);
            usleep(2000);
        }
        close(fd);
    }
    return NULL;
}

int main(int count, char **values)
{
    one_shot = count > 1 && strcmp(values[1], "one_shot") == 0;
    seconds = count > 2 ? atof(values[2]) : 1;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (count > 3) {
        address.sin_port = (in_port_t)atoi(values[3]);
        pthread_t threads[CLIENTS];
        for (uintptr_t i = 0; i < CLIENTS; i++)
            pthread_create(&threads[i], NULL, ask, (void *)i);
        for (int i = 0; i < CLIENTS; i++)
            pthread_join(threads[i], NULL);
        return 0;
    }
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0
        || getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        return 6;
    instance = epoll_create1(EPOLL_CLOEXEC);
    const pid_t clients = fork();
    if (clients == 0) {
        char port[16];
        snprintf(port, sizeof port, "%d", address.sin_port);
        execl("/proc/self/exe", values[0], values[1], values[2], port, (char *)NULL);
        _exit(7);
    }
    if (one_shot) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, serve_for_ever, NULL);
        const struct timeval patience = {.tv_usec = 200000};
        setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    } else {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
        if (epoll_ctl(instance, EPOLL_CTL_ADD, listener, &event) != 0)
            return 8;
    }
    int status;
    while (waitpid(clients, &status, WNOHANG) == 0) {
        if (one_shot)
            accept_one(listener);
        else
            serve(listener, 200);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
    puts("done");
    return 0;
}
