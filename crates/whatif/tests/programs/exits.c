/* Ends in the way that its argument says, after some work. */
#include "common.h"

static void *end_process(void *unused)
{
    work_for(0.05);
    exit(5);
    return unused;
}

static void *end_last(void *unused)
{
    work_for(0.15);
    puts("the other thread is the last");
    return unused;
}

static void *for_ever(void *unused)
{
    for (;;)
        hot();
    return unused;
}

static void at_quick(void)
{
    puts("quick");
    fflush(stdout);
}

static void at_end(void)
{
    puts("end");
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "0";
    pthread_t thread;
    atexit(at_end);
    printf("begin %s\n", how);
    fflush(stdout);
    work_for(argc > 2 ? atof(argv[2]) : 0.05);
    /* Until there is such a file, but not for ever. */
    for (int i = 0; argc > 3 && i < 900 && access(argv[3], F_OK) != 0; i++)
        work_for(0.1);
    if (!strncmp(how, "signal", 6)) {
        if (atoi(how + 6) == SIGSEGV)
            *nowhere = 1;
        if (atoi(how + 6) == SIGABRT)
            abort();
        kill(getpid(), atoi(how + 6));
        pause();
    } else if (!strcmp(how, "_exit")) {
        _exit(3);
    } else if (!strcmp(how, "quick_exit")) {
        at_quick_exit(at_quick);
        quick_exit(4);
    } else if (!strcmp(how, "thread")) {
        pthread_create(&thread, NULL, end_process, NULL);
        pthread_join(thread, NULL);
    } else if (!strcmp(how, "main_first")) {
        pthread_create(&thread, NULL, end_last, NULL);
        pthread_exit(NULL);
    } else if (!strcmp(how, "detached")) {
        for (int i = 0; i < 4; i++) {
            pthread_create(&thread, NULL, for_ever, NULL);
            pthread_detach(thread);
        }
        work_for(0.05);
        return 6;
    }
    return atoi(how);
}
