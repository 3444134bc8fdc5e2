/*
 * periodic - a round is A (3 ms) and B (2 ms), and one begins every interval_ms (10), whatever the work costs.
 *
 *   by=0   the thread waits until the next deadline (clock_nanosleep, TIMER_ABSTIME)
 *   by=1   it reads a periodic timerfd
 *   by=2   it waits for the timerfd in epoll_wait and reads then
 *   by=3   it waits as with 0, and hands the round over to one of two workers
 *
 * Answer: 0 for both: rounds do not come sooner. Above saturation (interval_ms below 5) what is saved is
 * gained until the work fits into the interval.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include periodic.c -o periodic
 */
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "target.h"
#include "threads.h"

static long a, b, interval;
static int by, timer, instance;
static struct timespec due;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static long rounds;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void work(void)
{
    A();
    B();
    WHATIF_PROGRESS_NAMED("round");
    visited();
}

static void *worker(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (rounds == 0)
            pthread_cond_wait(&more, &lock);
        rounds--;
        pthread_mutex_unlock(&lock);
        work();
    }
    return NULL;
}

static void deadline(void)
{
    due.tv_nsec += interval;
    due.tv_sec += due.tv_nsec / 1000000000;
    due.tv_nsec %= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0)
        ;
}

static long ticks(void)
{
    uint64_t expired;
    struct epoll_event event;
    if (by == 2 && epoll_wait(instance, &event, 1, -1) != 1)
        return 0;
    return read(timer, &expired, sizeof expired) == sizeof expired ? (long)expired : 0;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 3);
    b = iterations("B", 2);
    interval = (long)(1e6 * argument("interval_ms", 10));
    by = (int)argument("by", 0);
    clock_gettime(CLOCK_MONOTONIC, &due);
    if (by == 1 || by == 2) {
        const struct itimerspec every = {{0, interval}, {0, interval}};
        struct epoll_event event = {.events = EPOLLIN};
        timer = timerfd_create(CLOCK_MONOTONIC, 0);
        instance = epoll_create1(0);
        epoll_ctl(instance, EPOLL_CTL_ADD, timer, &event);
        timerfd_settime(timer, 0, &every, NULL);
    }
    start("round");
    for (int i = 0; by == 3 && i < 2; i++)
        spawn(worker, NULL);
    while (!over()) {
        if (by == 1 || by == 2) {
            for (long left = ticks(); left > 0; left--)
                work();
            continue;
        }
        deadline();
        if (by == 3) {
            pthread_mutex_lock(&lock);
            rounds++;
            pthread_cond_signal(&more);
            pthread_mutex_unlock(&lock);
        } else {
            work();
        }
    }
    finish();
}
