/* Ends of processes: while threads run, and in the midst of others. */
#include "corner.h"

static void *for_ever(void *unused)
{
    for (;;)
        hot();
    return unused;
}

static void many_threads(void)
{
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, for_ever, NULL) == 0);
    }
}

/* A child and then the process itself, with ten threads at work. */
static void race(void)
{
    for (int i = 0; i < 5; i++) {
        const pid_t child = fork();
        if (child == 0) {
            many_threads();
            meanwhile(0.03);
            exit(13);
        }
        CHECK(ended(child) == 13);
    }
    puts("children ended");
    many_threads();
    meanwhile(0.05);
    quick_exit(21);
}

static int wanted;

static void *works(void *unused)
{
    for (int i = 0; i < 100; i++)
        other();
    return unused;
}

/* When the process ends, a thread still comes and goes. */
__attribute__((destructor)) static void at_the_end(void)
{
    pthread_t thread;
    if (!wanted)
        return;
    CHECK(pthread_create(&thread, NULL, works, NULL) == 0 && pthread_join(thread, NULL) == 0);
    printf("a thread at the end, %d failures\n", failures);
    fflush(stdout);
}

static void late_thread(void)
{
    wanted = 1;
    exit(23);
}

/* By a handler, while other threads work and pause. */
static void ends_in_handler(int signal)
{
    _exit(signal);
}

static void in_handler(void)
{
    signal(SIGALRM, ends_in_handler);
    many_threads();
    alarm(1);
    meanwhile(HANG_SECONDS);
}

int main(int argc, char **argv)
{
    static const struct corner corners[] = {
        {"race", race, 0}, {"late_thread", late_thread, 0}, {"in_handler", in_handler, 0}, {NULL, NULL, 0},
    };
    return run_corner(argc, argv, corners);
}
