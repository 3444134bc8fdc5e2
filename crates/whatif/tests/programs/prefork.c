/* A master with workers, two by default, that serve for ever; one that has ended is replaced. Prints "ready" when they run. Each line on standard input is answered
   by "fine" when every worker has served again; at its end all end, with status 1 if a worker did not end by SIGTERM. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 16 };

static _Atomic unsigned long *served;

__attribute__((noinline)) void work(void) {
    volatile uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < 200000; i++)
        hash = (hash ^ (uint64_t)i) * 1099511628211u;
}

__attribute__((noinline)) void handle(int which) {
    work();
    served[which]++;
}

static pid_t fork_worker(int which) {
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* not left over when a test fails */
    for (;;) {
        handle(which);
        usleep(2000);
    }
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 2, failed = 0;
    served = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t workers[MOST];
    for (int n = 0; n < count && n < MOST; n++)
        workers[n] = fork_worker(n);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct pollfd input = {0, POLLIN, 0};
        if (poll(&input, 1, 20) > 0) {
            char word[64];
            if (read(0, word, sizeof word) <= 0)
                break;
            unsigned long seen[MOST];
            for (int n = 0; n < count; n++)
                seen[n] = served[n];
            for (int n = 0; n < count; n++)
                while (served[n] < seen[n] + 3)
                    usleep(1000);
            printf("fine\n");
            fflush(stdout);
        }
        int status;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        for (int n = 0; n < count && ended > 0; n++)
            if (workers[n] == ended) {
                failed |= !(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
                workers[n] = fork_worker(n);
            }
    }
    for (int n = 0; n < count; n++) {
        int status;
        kill(workers[n], SIGTERM);
        if (waitpid(workers[n], &status, 0) == workers[n])
            failed |= !(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    }
    return failed;
}
