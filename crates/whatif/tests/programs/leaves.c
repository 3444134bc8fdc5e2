/* leaves WHAT FILE FIRST JOBS STATUS: does FIRST jobs, ends with STATUS, and leaves processes behind that do JOBS jobs each then.
   WHAT: letters. c: a child; d: a daemon, that is a grandchild in a session of its own whose parent has ended; e: the same, which executes this program anew.
   What is left says in FILE.letter which process it is, how many jobs it has done, and whether that was all. It is there before the first process ends,
   and begins then.
   As soon as the test has seen enough, a job is the last one. */
#include "common.h"
#include "enough.h"
#include <fcntl.h>
#include <string.h>

__attribute__((noinline)) void job(void)
{
    STEPS(700000);
}

static void jobs(long count, int file)
{
    for (long done = 1, last = 0; done <= count && !last; done++) {
        job();
        WHATIF_PROGRESS_NAMED("done");
        char line[64];
        last = done == count || is_enough();
        const int length = snprintf(line, sizeof line, "%8d %8ld %ld\n", getpid(), done, last);
        CHECK(file < 0 || pwrite(file, line, (size_t)length, 0) == length);
    }
}

/* Descriptors of what is left: the end of a pipe that is closed when the first process has ended, and the one that says that it is there. */
enum { ENDED = 60, THERE = 61 };

static void work(const char *name, long count)
{
    char none;
    CHECK(write(THERE, "", 1) == 1);
    close(THERE);
    CHECK(read(ENDED, &none, 1) == 0);
    close(ENDED);
    const int nowhere_ = open("/dev/null", O_RDWR), file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    for (int i = 0; i < 3; i++)
        CHECK(dup2(nowhere_, i) == i);
    jobs(count, file);
    _exit(failures != 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 6);
    if (argv[1][0] == '-')
        work(argv[2], atol(argv[4]));
    jobs(atol(argv[3]), -1);
    int ends[2], there[2];
    char one;
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && pipe2(there, O_CLOEXEC) == 0);
    for (const char *what = argv[1]; *what; what++) {
        char name[4096];
        snprintf(name, sizeof name, "%s.%c", argv[2], *what);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child > 0) {
            if (*what != 'c')
                CHECK(waitpid(child, NULL, 0) == child);
            continue;
        }
        CHECK(dup2(ends[0], ENDED) == ENDED && dup2(there[1], THERE) == THERE);
        close(ends[1]);
        if (*what != 'c') {
            CHECK(setsid() >= 0);
            if (fork() != 0)
                _exit(0);
        }
        if (*what == 'e') {
            char *words[] = {argv[0], "-", name, "0", argv[4], "0", NULL};
            execv("/proc/self/exe", words);
            _exit(99);
        }
        work(name, atol(argv[4]));
    }
    for (size_t i = 0; i < strlen(argv[1]); i++)
        CHECK(read(there[0], &one, 1) == 1);
    return atoi(argv[5]);
}
