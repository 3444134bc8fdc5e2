/*
 * Two threads that do not depend on each other: one runs A, the other B. A timer interrupts the second
 * every millisecond or so, often while it pauses, and its handler
 *   write   makes an interposed call,
 *   jump    leaves with siglongjmp.
 * Making A faster does nothing for B; and the thread of B goes on paying what it owes.
 *   getchar  no timer; the main thread waits in a function of the C library that is not interposed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "whatif.h"

static volatile int stop;
/* Jumping out of the C library would be the program's own fault. */
static volatile sig_atomic_t in_b;
static int sink;
static sigjmp_buf again;

__attribute__((noinline)) static void A(void)
{
    for (volatile long i = 0; i < 200000; i++)
        ;
}

__attribute__((noinline)) static void B(void)
{
    for (volatile long i = 0; i < 200001; i++)
        ;
}

static void writes(int signal)
{
    (void)signal;
    if (write(sink, "x", 1) < 0)
        _exit(9);
}

static void jumps(int signal)
{
    (void)signal;
    if (in_b)
        siglongjmp(again, 1);
}

static void *runs_a(void *unused)
{
    while (!stop) {
        A();
        WHATIF_PROGRESS_NAMED("a");
    }
    return unused;
}

static void *reads(void *unused)
{
    int c;
    while ((c = getc_unlocked(stdin)) != EOF)
        ;
    return unused;
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "";
    pthread_t thread, reader;
    sigset_t alarm;
    struct itimerval every = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    const time_t end = time(NULL) + (count > 2 ? atoi(arguments[2]) : 4);

    if (strcmp(mode, "getchar") == 0) {
        pthread_create(&reader, NULL, reads, NULL);
        pthread_detach(reader);
    } else {
        sink = open("/dev/null", O_WRONLY);
        signal(SIGALRM, strcmp(mode, "jump") == 0 ? jumps : writes);
    }
    /* The signal is for the main thread: the other one is born with it blocked. */
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    pthread_create(&thread, NULL, runs_a, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    sigsetjmp(again, 1);
    in_b = 0;
    if (strcmp(mode, "getchar") != 0)
        setitimer(ITIMER_REAL, &every, NULL);
    while (time(NULL) < end) {
        in_b = 1;
        B();
        in_b = 0;
        WHATIF_PROGRESS_NAMED("b");
    }
    setitimer(ITIMER_REAL, &never, NULL);
    stop = 1;
    pthread_join(thread, NULL);
    return 3;
}
