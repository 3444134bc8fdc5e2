/* A program's own use of signals, of ours above all. The argument says which. */
#include "common.h"
#include <poll.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/time.h>

static volatile int handled, right, others;
static volatile int expected_code, expected_value;

/* SIGURG or SIGTRAP: both are ours. */
static int tested = SIGURG;

static void with_information(int signal, siginfo_t *info, void *context)
{
    const int good = signal == tested && context != NULL && info->si_signo == tested &&
                     info->si_code == expected_code && info->si_pid == getpid() &&
                     (expected_code != SI_QUEUE || info->si_value.sival_int == expected_value);
    __atomic_fetch_add(&right, good, __ATOMIC_RELAXED);
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELEASE);
}

static void plain(int signal)
{
    (void)signal;
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELEASE);
}

static void count_other(int signal)
{
    (void)signal;
    others++;
}

static int wait_for_handled(int number)
{
    const double limit = now() + HANG_SECONDS;
    while (__atomic_load_n(&handled, __ATOMIC_ACQUIRE) < number && now() < limit)
        usleep(50);
    return handled == number;
}

static void handler(void)
{
    struct sigaction action = {.sa_sigaction = with_information, .sa_flags = SA_SIGINFO | SA_RESTART}, old;
    int sent = 0;
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(tested, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(tested, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(tested, NULL, &old) == 0 && old.sa_sigaction == with_information);
    CHECK((old.sa_flags & (SA_SIGINFO | SA_RESTART | SA_RESETHAND | SA_NODEFER | SA_ONSTACK)) ==
          (SA_SIGINFO | SA_RESTART));
    CHECK(sigismember(&old.sa_mask, SIGUSR2) == 1 && sigismember(&old.sa_mask, SIGUSR1) == 0);
    const double end = now() + 1.5;
    while (now() < end && failures < 10) {
        /* Where SIGURG carries samples, the kernel merges one that is due with a SIGURG that is sent to the
           same thread at that moment, as it merges any two. What is sent to the process is apart. */
        expected_code = SI_TKILL;
        if (!forked) {
            CHECK(raise(tested) == 0 && handled == ++sent);
            other();
            CHECK(pthread_kill(pthread_self(), tested) == 0 && handled == ++sent);
            other();
        }
        expected_code = SI_USER;
        CHECK(kill(getpid(), tested) == 0 && wait_for_handled(++sent));
        other();
        expected_code = SI_QUEUE;
        expected_value = sent;
        CHECK(sigqueue(getpid(), tested, (union sigval){.sival_int = sent}) == 0 && wait_for_handled(++sent));
    }
    CHECK(handled == sent && right == sent);

    struct sigaction once = {.sa_handler = plain, .sa_flags = SA_RESETHAND};
    CHECK(sigaction(tested, &once, &old) == 0 && old.sa_sigaction == with_information);
    kill(getpid(), tested);
    CHECK(wait_for_handled(sent + 1));
    CHECK(sigaction(tested, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    if (tested == SIGURG)
        raise(tested); /* ignored by default */
    CHECK(signal(tested, plain) == SIG_DFL && signal(tested, SIG_IGN) == plain);
    raise(tested);
    work_for(0.05);
    CHECK(signal(tested, SIG_DFL) == SIG_IGN && handled == sent + 1);
    CHECK(signal(SIGUSR1, count_other) == SIG_DFL && signal(SIGUSR1, count_other) == count_other);
}

static void masked(void)
{
    sigset_t ours, old, pending;
    sigemptyset(&ours);
    sigaddset(&ours, tested);
    struct sigaction action = {.sa_sigaction = with_information, .sa_flags = SA_SIGINFO};
    sigaction(tested, &action, NULL);
    expected_code = SI_TKILL;
    for (int i = 0; i < 20; i++) {
        CHECK(sigprocmask(SIG_BLOCK, &ours, &old) == 0 && !sigismember(&old, tested));
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &old) == 0 && sigismember(&old, tested) == 1);
        sigpending(&pending);
        CHECK(!sigismember(&pending, tested));
        CHECK(raise(tested) == 0 && raise(tested) == 0);
        work_for(0.02);
        CHECK(handled == i);
        sigpending(&pending);
        CHECK(sigismember(&pending, tested) == 1);
        CHECK(sigprocmask(SIG_UNBLOCK, &ours, &old) == 0 && sigismember(&old, tested) == 1);
        CHECK(handled == i + 1 && right == i + 1);
        CHECK(sigprocmask(SIG_SETMASK, NULL, &old) == 0 && !sigismember(&old, tested));
    }
    sigfillset(&ours);
    CHECK(sigprocmask(SIG_SETMASK, &ours, &old) == 0);
    CHECK(sigprocmask(SIG_SETMASK, &old, &ours) == 0);
    for (int i = 1; i < 32; i++)
        CHECK(sigismember(&ours, i) == (i != SIGKILL && i != SIGSTOP));
}

/* A breakpoint of the program's own. */
static void breakpoints(void)
{
    struct sigaction action = {.sa_handler = plain};
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < 500; i++) {
        __asm__ volatile("int3");
        CHECK(handled == i + 1);
        other();
    }
}

/* Samples come although everything is blocked. */
__attribute__((noinline)) static void shielded(void)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    uint64_t x = 88172645463325252u;
    for (const double end = now() + 1.0; now() < end;)
        for (int i = 0; i < 100000; i++)
            x = x * 6364136223846793005u + 1;
    sink = x;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int woken;


static void *sender(void *receiver)
{
    for (int i = 0; i < 200; i++) {
        other();
        pthread_kill(*(pthread_t *)receiver, SIGUSR1);
        while (__atomic_load_n(&woken, __ATOMIC_ACQUIRE) <= i)
            usleep(20);
    }
    return NULL;
}

static void waits(void)
{
    sigset_t set;
    siginfo_t info;
    int signal = 0;
    pthread_t thread, self = pthread_self();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    CHECK(pthread_create(&thread, NULL, sender, &self) == 0);
    for (int i = 0; i < 200; i++) {
        if (i % 2) {
            CHECK(sigwait(&set, &signal) == 0 && signal == SIGUSR1);
        } else {
            CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_code == SI_USER); /* glibc hides SI_TKILL */
        }
        __atomic_store_n(&woken, i + 1, __ATOMIC_RELEASE);
        hot();
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < 50; i++) {
        const struct timespec moment = {0, 1000000};
        other();
        CHECK(sigtimedwait(&set, &info, &moment) == -1 && errno == EAGAIN);
    }

}

static sigjmp_buf recovery;

static void recover(int signal)
{
    (void)signal;
    others++;
    siglongjmp(recovery, 1);
}

static void faults(void)
{
    const stack_t stack = {.ss_sp = malloc(64 * 1024), .ss_size = 64 * 1024};
    struct sigaction action = {.sa_handler = recover, .sa_flags = SA_ONSTACK};
    sigset_t mask;
    volatile int recovered = 0;
    CHECK(sigaltstack(&stack, NULL) == 0);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    const double end = now() + 1.0;
    while (now() < end) {
        other();
        if (sigsetjmp(recovery, 1) == 0)
            *nowhere = 1;
        recovered = recovered + 1;
    }
    CHECK(recovered == others && recovered > 0);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    CHECK(!sigismember(&mask, SIGSEGV) && !sigismember(&mask, SIGURG));
}

/* The program profiles itself. */
static void timer(void)
{
    enum { ENOUGH = 50 };
    const struct itimerval every = {{0, 10000}, {0, 10000}};
    struct itimerval found;
    struct sigaction action = {.sa_handler = count_other, .sa_flags = SA_RESTART};
    struct timespec used;
    sigaction(SIGPROF, &action, NULL);
    CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0);
    do {
        other();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (others < ENOUGH && used.tv_sec < HANG_SECONDS);
    CHECK(getitimer(ITIMER_PROF, &found) == 0 && found.it_interval.tv_usec == 10000);
    CHECK(others >= ENOUGH);
    fprintf(stderr, "expirations_per_second %d\n", (int)(others / ((double)used.tv_sec + (double)used.tv_nsec * 1e-9)));
}

static int ends[2], restarted;

static void *writer(void *reader)
{
    for (int i = 0; i < 100; i++) {
        other();
        pthread_kill(*(pthread_t *)reader, SIGUSR1);
        other();
        CHECK(write(ends[1], "x", 1) == 1);
    }
    return NULL;
}

static void restart(void)
{
    struct sigaction action = {.sa_handler = count_other, .sa_flags = SA_RESTART};
    pthread_t thread, self = pthread_self();
    char byte;
    sigaction(SIGUSR1, &action, NULL);
    CHECK(pipe(ends) == 0);
    CHECK(pthread_create(&thread, NULL, writer, &self) == 0);
    for (int i = 0; i < 100; i++) {
        CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
        restarted++;
        hot();
    }
    pthread_join(thread, NULL);
    CHECK(others > 0);
}

/* A signal of the program's own must still interrupt a wait. */
static void *interrupter(void *victim)
{
    while (!__atomic_load_n(&woken, __ATOMIC_ACQUIRE)) {
        usleep(2000);
        pthread_kill(*(pthread_t *)victim, restarted ? SIGUSR1 : SIGURG);
    }
    return NULL;
}

static void interrupt(int number)
{
    struct sigaction action = {.sa_handler = count_other};
    const struct timespec long_time = {HANG_SECONDS, 0};
    pthread_t thread, self = pthread_self();
    restarted = number == SIGUSR1;
    sigaction(number, &action, NULL);
    CHECK(pthread_create(&thread, NULL, interrupter, &self) == 0);
    for (int i = 0; i < 20 && failures < 3; i++) {
        hot();
        CHECK(nanosleep(&long_time, NULL) == -1 && errno == EINTR);
    }
    CHECK(others > 0);
    __atomic_store_n(&woken, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

static void *sends_later(void *unused)
{
    usleep(2000);
    CHECK(kill(getpid(), SIGURG) == 0);
    return unused;
}

enum { SIGNALFD, SIGWAIT, SIGTIMEDWAIT, SIGSUSPEND, PPOLL, PSELECT, EPOLL_PWAIT, WAYS };

/* A signal that is blocked, and taken by waiting for it: sent before, or meanwhile. */
static void awaited(int first)
{
    const struct timespec limit = {HANG_SECONDS, 0};
    sigset_t ours, none, pending;
    struct signalfd_siginfo described;
    siginfo_t info;
    int signal;
    CHECK(sigaction(SIGURG, &(struct sigaction){.sa_handler = plain}, NULL) == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &ours) == 0 && sigismember(&ours, SIGURG));
    CHECK(sigemptyset(&none) == 0 && sigemptyset(&ours) == 0 && sigaddset(&ours, SIGURG) == 0);
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < 4 * WAYS && failures < 3; i++) {
        const int way = (first + i / 4) % WAYS, before = handled;
        pthread_t sender;
        if (i % 2)
            CHECK(pthread_create(&sender, NULL, sends_later, NULL) == 0);
        else
            CHECK(kill(getpid(), SIGURG) == 0);
        other();
        if (way == SIGNALFD) {
            const int fd = signalfd(-1, &ours, SFD_CLOEXEC);
            struct pollfd readable = {fd, POLLIN, 0};
            CHECK(poll(&readable, 1, 1000 * HANG_SECONDS) == 1 && read(fd, &described, sizeof described) == sizeof described);
            CHECK(described.ssi_signo == SIGURG && (pid_t)described.ssi_pid == getpid() && close(fd) == 0);
        } else if (way == SIGWAIT)
            CHECK(sigwait(&ours, &signal) == 0 && signal == SIGURG);
        else if (way == SIGTIMEDWAIT)
            CHECK(sigtimedwait(&ours, &info, &limit) == SIGURG && info.si_code == SI_USER && info.si_pid == getpid());
        /* Another thread that is just leaving the signal to us may have had it for a moment: then a wait ends early, and the signal is pending. */
        for (const double end = now() + HANG_SECONDS; way >= SIGSUSPEND && handled == before && now() < end;) {
            struct epoll_event event;
            const int result = way == SIGSUSPEND ? sigsuspend(&none)
                               : way == PPOLL    ? ppoll(NULL, 0, &limit, &none)
                               : way == PSELECT  ? pselect(0, NULL, NULL, NULL, &limit, &none)
                                                 : epoll_pwait(epoll, &event, 1, 1000 * HANG_SECONDS, &none);
            CHECK(result == -1 && errno == EINTR);
        }
        CHECK(handled - before == (way >= SIGSUSPEND));
        CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGURG));
        CHECK(sigprocmask(SIG_BLOCK, NULL, &pending) == 0 && sigismember(&pending, SIGURG));
        if (i % 2)
            pthread_join(sender, NULL);
    }
    CHECK(kill(getpid(), SIGURG) == 0 && sigpending(&pending) == 0 && sigismember(&pending, SIGURG));
    signal = handled;
    CHECK(sigprocmask(SIG_UNBLOCK, &ours, NULL) == 0 && handled == signal + 1);
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2)
        tested = atoi(argv[2]);
    fork_if_asked(argc, argv);
    if (!strcmp(which, "awaited")) {
        sigset_t ours;
        sigemptyset(&ours);
        sigaddset(&ours, SIGURG);
        sigprocmask(SIG_BLOCK, &ours, NULL);
    }
    if (strcmp(which, "timer"))
        start_background();
    if (!strcmp(which, "handler"))
        handler();
    else if (!strcmp(which, "masked"))
        masked();
    else if (!strcmp(which, "breakpoints"))
        breakpoints();
    else if (!strcmp(which, "shielded"))
        shielded();
    else if (!strcmp(which, "waits"))
        waits();
    else if (!strcmp(which, "faults"))
        faults();
    else if (!strcmp(which, "timer"))
        timer();
    else if (!strcmp(which, "restart"))
        restart();
    else if (!strcmp(which, "awaited"))
        awaited(tested);
    else if (!strcmp(which, "interrupt"))
        interrupt(SIGUSR1);
    else if (!strcmp(which, "interrupt_ours"))
        interrupt(SIGURG);
    else
        return 2;
    if (strcmp(which, "timer")) {
        /* Long enough for an experiment. */
        for (const double end = now() + 0.5; now() < end;)
            other();
        stop_background();
    }
    return done();
}
