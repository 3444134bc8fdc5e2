/* A server with two threads, each of which handles about a thousand requests a second and takes a tenth of a CPU. Prints "ready" when both have handled some. Hears a line on standard input: "stop" (no
   request is handled any more), "go", or any other one, which is answered by "fine" when it still hears. At its end it ends. */
#include "common.h"
#include <stdatomic.h>

static _Atomic int stopped;
static _Atomic unsigned long handled[2];

/* About a tenth of a millisecond of work. */
__attribute__((noinline)) void work(void)
{
    STEPS(60000);
}

__attribute__((noinline)) void handle(int which)
{
    work();
    handled[which]++;
}

static void *serve(void *which)
{
    for (;;) {
        if (stopped) {
            usleep(1000);
            continue;
        }
        handle((int)(intptr_t)which);
        usleep(900);
    }
    return 0;
}

int main(void)
{
    pthread_t threads[2];
    for (intptr_t n = 0; n < 2; n++)
        pthread_create(&threads[n], 0, serve, (void *)n);
    while (handled[0] < 3 || handled[1] < 3)
        usleep(1000);
    printf("ready\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "stop\n") == 0)
            stopped = 1;
        else if (strcmp(line, "go\n") == 0)
            stopped = 0;
        printf("fine\n");
        fflush(stdout);
    }
    return 0;
}
