/* Executes the program of its arguments in two processes, and looks every millisecond whether they have ended; they end with it. */
#include "common.h"
#include <sys/prctl.h>

__attribute__((noinline)) int idle(void)
{
    const struct timespec nap = {0, 1000000};
    int status;
    nanosleep(&nap, NULL);
    return waitpid(-1, &status, WNOHANG) > 0;
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    for (int i = 0; i < 2; i++) {
        const pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execv(argv[1], argv + 1);
            _exit(99);
        }
        CHECK(child > 0);
    }
    for (int left = 2; left > 0;) {
        left -= idle();
    }
    return failures;
}
