/* A program with a handler of its own for SIGURG, and one that ignores it: what waits, is interrupted and is blocked as it is without us. The second argument has it done in a
   forked child, where samples would come by SIGURG. */
#include "common.h"
#include <poll.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

static volatile int handled, trapped, inside;
static sigset_t none, urgent;
static pthread_t waiting;

static void count(int signal)
{
    (void)signal;
    handled++;
}

static void trap(int signal)
{
    (void)signal;
    trapped++;
}

static void install(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static int blocked(void)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, SIGURG);
}

static void work(double seconds)
{
    const double end = now() + seconds;
    while (now() < end)
        hot();
}

/* Sends the signal again and again, to the thread that waits: once may be before it does. */
static void *send(void *argument)
{
    const volatile int *const over = argument;
    while (!*over) {
        usleep(2000);
        pthread_kill(waiting, SIGURG);
    }
    return NULL;
}

/* Runs `wait`, which a signal is to end. */
static void interrupted(const char *name, int (*wait)(void))
{
    volatile int over = 0;
    pthread_t sender;
    sigset_t all, before;
    waiting = pthread_self();
    handled = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&sender, NULL, send, (void *)&over);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    const int result = wait();
    const int error = errno;
    printf("%s: %d, %s, %s\n", name, result, result == 0 ? "to its end" : strerror(error), handled ? "handled" : "not handled");
    over = 1;
    pthread_join(sender, NULL);
}

static int pauses(void)
{
    return pause();
}

static int sleeps(void)
{
    const struct timespec time = {HANG_SECONDS, 0};
    return nanosleep(&time, NULL);
}

static int sleeps_shortly(void)
{
    const struct timespec time = {0, 300000000};
    return nanosleep(&time, NULL);
}

static int polls(void)
{
    return poll(NULL, 0, 1000 * HANG_SECONDS);
}

static int polls_shortly(void)
{
    return poll(NULL, 0, 300);
}

static int reads(void)
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    const int result = (int)read(ends[0], &byte, 1);
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return result;
}

static int suspends(void)
{
    return sigsuspend(&none);
}

static void raise_trap(int signal)
{
    (void)signal;
    const int before = trapped;
    __asm__ volatile("int3");
    inside = trapped != before;
}

static void work_for_long(int signal)
{
    (void)signal;
    work(0.1);
}

static void poll_without_signals(int signal)
{
    const struct timespec time = {0, 1000000};
    (void)signal;
    ppoll(NULL, 0, &time, &none);
}

static sigjmp_buf back;

/* What is blocked stays so, and a signal is pending. */
static void still_blocked(const char *name)
{
    handled = 0;
    CHECK(blocked());
    kill(getpid(), SIGURG);
    work(0.02);
    sigset_t pending;
    sigpending(&pending);
    printf("%s: blocked %d, handled %d, pending %d\n", name, blocked(), handled, sigismember(&pending, SIGURG));
    const struct timespec at_once = {0, 0};
    CHECK(sigtimedwait(&urgent, NULL, &at_once) == SIGURG);
}

static void *unblock_and_wait(void *argument)
{
    const volatile int *const over = argument;
    sigset_t traps;
    sigemptyset(&traps);
    sigaddset(&traps, SIGURG);
    pthread_sigmask(SIG_UNBLOCK, &traps, NULL);
    while (!*over)
        usleep(1000);
    return NULL;
}

static void refused(const char *name, int result)
{
    printf("%s: %d, %s\n", name, result, strerror(errno));
}

int main(int count_of, char **arguments)
{
    const char *const which = arguments[1];
    fork_if_asked(count_of, arguments);
    sigemptyset(&none);
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    work(0.05);
    if (!strcmp(which, "handled")) {
        install(SIGURG, count, 0);
        interrupted("pause", pauses);
        interrupted("nanosleep", sleeps);
        interrupted("poll", polls);
        interrupted("read", reads);
        interrupted("sigsuspend", suspends);
        install(SIGTRAP, trap, 0);
        install(SIGURG, raise_trap, 0);
        raise(SIGURG);
        printf("a breakpoint in its handler: %d\n", inside);
    } else if (!strcmp(which, "ignored")) {
        interrupted("nanosleep", sleeps_shortly);
        signal(SIGURG, SIG_IGN);
        interrupted("poll", polls_shortly);
    } else if (!strcmp(which, "blocked")) {
        sigprocmask(SIG_BLOCK, &urgent, NULL);
        install(SIGUSR1, work_for_long, 0);
        raise(SIGUSR1);
        if (sigsetjmp(back, 1) == 0) {
            work(0.1);
            siglongjmp(back, 1);
        }
        install(SIGURG, count, 0);
        still_blocked("after a jump");
        install(SIGUSR1, poll_without_signals, 0);
        raise(SIGUSR1);
        still_blocked("after a wait in a handler");
        volatile int over = 0;
        pthread_t other;
        pthread_create(&other, NULL, unblock_and_wait, (void *)&over);
        usleep(20000);
        handled = 0;
        const double end = now() + HANG_SECONDS;
        for (int sent = 0; sent < 10 && now() < end; sent++) {
            kill(getpid(), SIGURG);
            while (handled <= sent && now() < end)
                hot();
        }
        printf("handled in another thread: %d\n", handled);
        over = 1;
        pthread_join(other, NULL);
    } else if (!strcmp(which, "bad")) {
        sigset_t *const volatile bad = (sigset_t *)8;
        const struct timespec shortly = {0, 1};
        struct epoll_event event;
        const int instance = epoll_create1(0);
        refused("sigtimedwait", sigtimedwait(bad, NULL, &shortly));
        refused("signalfd", signalfd(-1, bad, 0));
        refused("ppoll", ppoll(NULL, 0, &shortly, bad));
        refused("pselect", pselect(0, NULL, NULL, NULL, &shortly, bad));
        refused("epoll_pwait", epoll_pwait(instance, &event, 1, 0, bad));
        refused("sigsuspend", sigsuspend(bad));
    }
    return done();
}
