/* Signals: who gets them, how often, with what masks, and which calls they interrupt. */
#include "corner.h"
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>

static const int some[] = {SIGTRAP, SIGURG, SIGPROF, SIGSEGV, SIGALRM, SIGVTALRM, SIGXCPU, SIGSYS, SIGIO, 40, 64};
#define NUMBER (sizeof some / sizeof *some)

static int counts[65];

static void count(int signal, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    __atomic_fetch_add(&counts[signal], 1, __ATOMIC_RELAXED);
}

static void print_counts(void)
{
    for (int i = 1; i < 65; i++)
        if (counts[i])
            printf("signal %d: %d\n", i, counts[i]);
}

/* What was installed is what is read back, and each signal that is raised is handled before the next instruction. */
static void actions(void)
{
    for (size_t i = 0; i < NUMBER; i++) {
        struct sigaction found, action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | (i % 2 ? SA_RESTART : 0)};
        sigfillset(&action.sa_mask);
        sigdelset(&action.sa_mask, SIGKILL);
        sigdelset(&action.sa_mask, SIGSTOP);
        CHECK(sigaction(some[i], NULL, &found) == 0 && found.sa_handler == SIG_DFL);
        CHECK(sigaction(some[i], &action, NULL) == 0 && sigaction(some[i], NULL, &found) == 0);
        CHECK(found.sa_sigaction == count && (found.sa_flags & ~0x04000000) == action.sa_flags);
        CHECK(memcmp(&found.sa_mask, &action.sa_mask, 8) == 0);
    }
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < NUMBER; i++)
            raise(some[i]);
        other();
    }
    for (int i = 0; i < 100; i++)
        __asm__ volatile("int3");
    print_counts();
}

/* Ignored, and then with its default action: it ends the process. */
static void default_trap(void)
{
    signal(SIGTRAP, SIG_IGN);
    raise(SIGTRAP);
    puts("ignored");
    signal(SIGTRAP, SIG_DFL);
    raise(SIGTRAP);
}

static int pending_signals(void)
{
    sigset_t pending;
    int number = 0;
    sigpending(&pending);
    for (int i = 1; i < 65; i++)
        number += sigismember(&pending, i) > 0;
    return number;
}

/* All blocked, by the C library. */
static void all_blocked(void)
{
    sigset_t all, found;
    int blocked = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    meanwhile(SECONDS);
    pthread_sigmask(SIG_BLOCK, NULL, &found);
    for (int i = 1; i < 65; i++)
        blocked += sigismember(&found, i) > 0;
    printf("%d blocked, %d pending\n", blocked, pending_signals());
}

/* A system call that no library sees. */
static long raw(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

/* The same with no library between. */
static void all_blocked_raw(void)
{
    uint64_t all = ~0ull, found = 0, pending = 0, none = 0;
    raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, 8);
    meanwhile(SECONDS);
    raw(SYS_rt_sigprocmask, SIG_SETMASK, 0, (long)&found, 8);
    raw(SYS_rt_sigpending, (long)&pending, 8, 0, 0);
    raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, 8);
    printf("blocked %llx, pending %llx\n", (unsigned long long)found, (unsigned long long)pending);
}

/* All actions made the default with no library between. */
static void default_raw(void)
{
    const struct {
        uint64_t handler, flags, restorer, mask;
    } action = {0, 0, 0, 0};
    for (int i = 1; i < 65; i++)
        raw(SYS_rt_sigaction, i, (long)&action, 0, 8);
    meanwhile(SECONDS);
}

/* What is sent while all is blocked is found by those who wait for it, and nothing else is. */
static void waited_for(void)
{
    sigset_t all;
    const struct timespec moment = {0, 200000};
    struct signalfd_siginfo told;
    siginfo_t info;
    int signal;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    start_background(); /* with all blocked as well */
    for (int i = 0; i < 200; i++) {
        kill(getpid(), SIGUSR1);
        CHECK(sigwait(&all, &signal) == 0);
        counts[signal]++;
        signal = sigtimedwait(&all, &info, &moment);
        if (signal > 0)
            counts[signal]++;
        else
            CHECK(errno == EAGAIN);
    }
    const int fd = signalfd(-1, &all, SFD_NONBLOCK);
    for (int i = 0; i < 200; i++) {
        kill(getpid(), SIGUSR2);
        while (read(fd, &told, sizeof told) == sizeof told)
            counts[told.ssi_signo]++;
        other();
    }
    close(fd);
    stop_background();
    print_counts();
}

static pthread_t main_thread;
static int here, there;
static volatile sig_atomic_t may_jump;
static sigjmp_buf again;

static void note_thread(int signal)
{
    (void)signal;
    const int is_main = pthread_equal(pthread_self(), main_thread);
    __atomic_fetch_add(is_main ? &here : &there, 1, __ATOMIC_RELAXED);
    if (is_main && may_jump) {
        may_jump = 0;
        siglongjmp(again, 1);
    }
}

static void set_timer(long first, long every)
{
    const struct itimerval timer = {{0, every}, {0, first}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* A signal to the process goes to the main thread, which never blocks it. (On a busy machine another thread may have some of them. The timer must
 * not expire again while the main thread has entered, but not run, its handler: it has the signal blocked then.) */
static void to_the_process(void)
{
    main_thread = pthread_self();
    signal(SIGALRM, note_thread);
    for (int handled = -1; going_on() || (here <= 20 && now() < began + HANG_SECONDS);) {
        const int so_far = __atomic_load_n(&here, __ATOMIC_RELAXED) + __atomic_load_n(&there, __ATOMIC_RELAXED);
        if (so_far != handled)
            set_timer(1000, 0);
        handled = so_far;
        other();
        if (here % 3 == 0)
            usleep(300);
    }
    set_timer(0, 0);
    printf("handled by the main thread: %d\n", here > 20);
}

/* The handler leaves what it has interrupted: waits of all kinds, and work. */
static void jumps(void)
{
    int ends[2];
    char byte;
    sem_t never;
    volatile int jumped = 0;
    volatile uint64_t x = 1;
    CHECK(pipe(ends) == 0);
    sem_init(&never, 0, 0);
    struct pollfd poll_it = {ends[0], POLLIN, 0};
    main_thread = pthread_self();
    signal(SIGALRM, note_thread);
    for (volatile int i = 0; i < 150; i++) {
        if (sigsetjmp(again, 1)) {
            jumped++;
            continue;
        }
        may_jump = 1;
        set_timer(1000 + i * 37 % 3000, 100000);
        for (;;) {
            if (i % 6 == 0)
                CHECK(read(ends[0], &byte, 1) == -1);
            else if (i % 6 == 1)
                CHECK(sem_wait(&never) == -1);
            else if (i % 6 == 2)
                usleep(500000);
            else if (i % 6 == 3)
                x = x * 6364136223846793005u + 1;
            else if (i % 6 == 4)
                poll(&poll_it, 1, -1);
            else
                pause();
        }
    }
    set_timer(0, 0);
    printf("jumped %d\n", jumped);
}

/* Calls that wait fail with EINTR as often as they are interrupted, and no call is restarted. */
static void interrupted(void)
{
    struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};
    const struct timespec long_time = {HANG_SECONDS, 0};
    int ends[2], failed[5] = {0};
    char byte;
    sem_t never;
    sigset_t alarm, none;
    CHECK(pipe(ends) == 0);
    struct pollfd poll_it = {ends[0], POLLIN, 0};
    sem_init(&never, 0, 0);
    sigemptyset(&none);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    /* The signal is for this thread: the other one is born with it blocked. */
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    start_background();
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    sigaction(SIGALRM, &action, NULL);
    set_timer(2000, 2000);
    for (int i = 0; i < 30; i++) {
        failed[0] += read(ends[0], &byte, 1) == -1 && errno == EINTR;
        other();
        failed[1] += nanosleep(&long_time, NULL) == -1 && errno == EINTR;
        failed[2] += sem_wait(&never) == -1 && errno == EINTR;
        other();
        failed[3] += poll(&poll_it, 1, -1) == -1 && errno == EINTR;
        failed[4] += sigsuspend(&none) == -1 && errno == EINTR;
    }
    set_timer(0, 0);
    stop_background();
    printf("EINTR: %d %d %d %d %d\n", failed[0], failed[1], failed[2], failed[3], failed[4]);
}

/* A timer's expirations are all told, in signals or as overruns. */
static void timer(void)
{
    struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 40};
    struct itimerspec every = {{0, 5000000}, {0, 5000000}};
    timer_t timer;
    sigset_t set;
    siginfo_t info;
    int expirations = 0;
    sigemptyset(&set);
    sigaddset(&set, 40);
    sigaction(40, &action, NULL);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    start_background();
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    const double start = now();
    double before;
    CHECK(timer_settime(timer, 0, &every, NULL) == 0);
    const double armed = now();
    do {
        other();
        before = now();
        CHECK(sigwaitinfo(&set, &info) == 40 && info.si_code == SI_TIMER);
        expirations += 1 + info.si_overrun;
    } while (before < start + SECONDS);
    CHECK(expirations <= (now() - start) / 0.005 && expirations >= (before - armed) / 0.005 - 1);
    timer_delete(timer);
    stop_background();
}

/* Signals to single threads are handled in them, as often as they were sent. */
#define RECEIVERS 4
static __thread int own;
static int received[RECEIVERS];

static void count_own(int signal)
{
    (void)signal;
    __atomic_fetch_add(&received[own], 1, __ATOMIC_RELEASE);
}

static int over, ready;

static void *receives(void *number)
{
    own = (int)(long)number;
    __atomic_fetch_add(&ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        other();
        usleep(200);
    }
    return number;
}

static void to_threads(void)
{
    pthread_t threads[RECEIVERS];
    signal(SIGUSR1, count_own);
    for (long i = 0; i < RECEIVERS; i++)
        CHECK(pthread_create(&threads[i], NULL, receives, (void *)i) == 0);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < RECEIVERS)
        usleep(50);
    for (int i = 0; i < 200; i++) {
        const int to = i % RECEIVERS;
        CHECK(pthread_kill(threads[to], SIGUSR1) == 0);
        while (__atomic_load_n(&received[to], __ATOMIC_ACQUIRE) <= i / RECEIVERS)
            usleep(50);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < RECEIVERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        printf("thread %d: %d\n", i, received[i]);
    }
}

static int right;

static void child_ended(int signal, siginfo_t *info, void *context)
{
    (void)context;
    counts[signal]++;
    right += info->si_code == CLD_EXITED && info->si_status == 7;
}

/* Every child's end is told, with how it ended. */
static void of_children(void)
{
    struct sigaction action = {.sa_sigaction = child_ended, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    for (int i = 0; i < 60; i++) {
        const pid_t child = fork();
        if (child == 0)
            _exit(7);
        CHECK(ended(child) == 7);
        while (__atomic_load_n(&counts[SIGCHLD], __ATOMIC_RELAXED) <= i)
            usleep(50);
    }
    printf("told %d, right %d\n", counts[SIGCHLD], right);
}

static int requests[2], answers[2];

/* A little work, as servers do for a request. */
static void a_request(void)
{
    STEPS(5000);
}

/* Waits that fail with EINTR behind any handler, in turn. */
static void wait_a_little(int turn)
{
    const struct timespec brief = {0, 20000};
    struct pollfd nothing = {-1, POLLIN, 0};
    sigset_t set;
    switch (turn % 4) {
    case 0:
        CHECK(nanosleep(&brief, NULL) == 0);
        break;
    case 1:
        CHECK(ppoll(&nothing, 1, &brief, NULL) == 0);
        break;
    case 2:
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        CHECK(sigtimedwait(&set, NULL, &brief) == -1 && errno == EAGAIN);
        break;
    default:
        CHECK(sigpending(&set) == 0 && !sigismember(&set, SIGTRAP) && !sigismember(&set, SIGURG));
    }
}

static void *answers_requests(void *unused)
{
    char byte;
    while (read(requests[0], &byte, 1) == 1) {
        a_request();
        errno = 77;
        CHECK(write(answers[1], &byte, 1) == 1 && errno == 77);
    }
    return unused;
}

/* Two threads that run for some microseconds at a time: none of their waits ends early, and what they start is not interrupted either. */
static void short_runs(void)
{
    pthread_t thread;
    char byte = 'x';
    CHECK(pipe(requests) == 0 && pipe(answers) == 0);
    CHECK(pthread_create(&thread, NULL, answers_requests, NULL) == 0);
    for (int turn = 0; going_on(); turn++) {
        a_request();
        CHECK(write(requests[1], &byte, 1) == 1 && read(answers[0], &byte, 1) == 1);
        if (turn % 16 == 0)
            wait_a_little(turn / 16);
        if (turn % 500 == 499)
            CHECK(execl("/nonexistent", "nothing", NULL) == -1 && errno == ENOENT);
        if (turn % 2000 == 1999) {
            const pid_t child = fork();
            if (child == 0)
                execl("/bin/true", "true", NULL);
            CHECK(ended(child) == 0);
        }
    }
    close(requests[1]);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    static const struct corner corners[] = {
        {"actions", actions, 0},
        {"default_trap", default_trap, 0},
        {"all_blocked", all_blocked, 0},
        {"all_blocked_raw", all_blocked_raw, 0},
        {"default_raw", default_raw, 0},
        {"waited_for", waited_for, 1},
        {"to_the_process", to_the_process, 0},
        {"jumps", jumps, 0},
        {"interrupted", interrupted, 1},
        {"timer", timer, 1},
        {"to_threads", to_threads, 0},
        {"of_children", of_children, 0},
        {"short_runs", short_runs, 0},
        {NULL, NULL, 0},
    };
    return run_corner(argc, argv, corners);
}
