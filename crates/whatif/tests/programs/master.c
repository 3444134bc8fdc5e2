/* Executes the program of its arguments as many times as the first one says, by turns in a forked child, by vfork and by posix_spawn, and says how each has
   ended; the last time, or as soon as the test has seen enough, it becomes the program itself. */
#include "common.h"
#include "enough.h"
#include <spawn.h>
#include <sys/wait.h>

#ifndef PREPARATION
#define PREPARATION 3000000
#endif

extern char **environ;

__attribute__((noinline)) void prepare(void)
{
    STEPS(PREPARATION);
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    setvbuf(stdout, NULL, _IONBF, 0);
    const int times = atoi(argv[1]);
    for (int i = 1; i < times && !is_enough(); i++) {
        pid_t child;
        int status = -1;
        prepare();
        if (i % 3 == 2) {
            CHECK(posix_spawn(&child, argv[2], NULL, NULL, argv + 2, environ) == 0);
        } else {
            child = i % 3 == 0 ? fork() : vfork();
            if (child == 0) {
                execv(argv[2], argv + 2);
                _exit(99);
            }
        }
        CHECK(waitpid(child, &status, 0) == child);
        printf("%d: %x\n", i, (unsigned)status);
    }
    execv(argv[2], argv + 2);
    return 98;
}
