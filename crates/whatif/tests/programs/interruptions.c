/* Calls that fail with EINTR after any signal handler: they must not do so because of samples. */
#include "common.h"
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>

static int interrupted, wrong;

static void see(int result, int expected)
{
    if (result == -1 && errno == EINTR)
        __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
    else if (result != expected)
        __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

static void *waits(void *unused)
{
    sem_t semaphore;
    sigset_t none;
    uint32_t word = 0;
    struct epoll_event event;
    const struct timespec moment = {0, 500000};
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    const double end = now() + 1.5;
    sem_init(&semaphore, 0, 0);
    sigemptyset(&none);
    while (now() < end) {
        struct timespec until;
        struct timeval brief = {0, 500};
        see(poll(NULL, 0, 1), 0);
        other();
        see(nanosleep(&moment, NULL), 0);
        other();
        errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
        see(errno ? -1 : 0, 0);
        see(epoll_wait(epoll, &event, 1, 1), 0);
        see(epoll_pwait(epoll, &event, 1, 1, &none), 0);
        other();
        until = in_ms(CLOCK_REALTIME, 1);
        errno = 0;
        see(sem_timedwait(&semaphore, &until), -1);
        see(usleep(500), 0);
        see(select(0, NULL, NULL, NULL, &brief), 0);
        other();
        see(ppoll(NULL, 0, &moment, &none), 0);
        see(pselect(0, NULL, NULL, NULL, &moment, &none), 0);
        errno = 0;
        see((int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &moment, NULL, 0), -1);
    }
    close(epoll);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    fork_if_asked(argc, argv);
    start_background();
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, waits, NULL) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(interrupted == 0);
    CHECK(wrong == 0);
    stop_background();
    return done();
}
