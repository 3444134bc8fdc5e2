/* Waits in four functions, and says how long it was in each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ask[2], answer[2], hold[2], held[2];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static void rest(long us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}
static void *holder(void *arg) {
    long us;
    while (read(hold[0], &us, sizeof us) == sizeof us) {
        pthread_mutex_lock(&lock);
        if (write(held[1], "", 1) != 1) break;
        rest(us);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}
static void *writer(void *arg) {
    long us;
    while (read(ask[0], &us, sizeof us) == sizeof us) {
        rest(us);
        if (write(answer[1], "", 1) != 1) break;
    }
    return arg;
}
__attribute__((noinline)) void sleeps(long us) { rest(us); __asm__ volatile(""); }
__attribute__((noinline)) void locks(void) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    __asm__ volatile("");
}
__attribute__((noinline)) void reads(void) {
    char c;
    if (read(answer[0], &c, 1) != 1) exit(1);
    __asm__ volatile("");
}
__attribute__((noinline)) void syncs(int fd) {
    if (pwrite(fd, "x", 1, 0) != 1 || fsync(fd) != 0) exit(1);
    __asm__ volatile("");
}
int main(int argc, char **argv) {
    double seconds = atof(argv[1]), sum[4] = {0}, begin, t;
    long unit = atol(argv[2]);
    int fd = open(argv[3], O_CREAT | O_RDWR, 0600);
    pthread_t a, b;
    char c;
    if (fd < 0 || pipe(ask) || pipe(answer) || pipe(hold) || pipe(held)) return 1;
    pthread_create(&a, NULL, holder, NULL);
    pthread_create(&b, NULL, writer, NULL);
    (void)argc;
    for (begin = now(); now() - begin < seconds;) {
        t = now(); sleeps(5 * unit); sum[0] += now() - t;
        long us = 3 * unit;
        if (write(hold[1], &us, sizeof us) != sizeof us || read(held[0], &c, 1) != 1) return 1;
        t = now(); locks(); sum[1] += now() - t;
        us = unit;
        if (write(ask[1], &us, sizeof us) != sizeof us) return 1;
        t = now(); reads(); sum[2] += now() - t;
        t = now(); syncs(fd); sum[3] += now() - t;
    }
    printf("sleeps %f locks %f reads %f syncs %f\n", sum[0], sum[1], sum[2], sum[3]);
    return 0;
}
