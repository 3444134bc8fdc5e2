/* A process and the program that it executes hand work to each other. The argument says by what. They end as soon as the test has seen
   enough. */
#include "common.h"
#include "enough.h"
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/syscall.h>

static const char *kind;
static int fds[2];

/* The program again, as the other one; its descriptors stay open. */
static pid_t other_one(pid_t (*start)(void))
{
    const pid_t child = start();
    if (child == 0) {
        char first[16], second[16];
        snprintf(first, sizeof first, "%d", fds[0]);
        snprintf(second, sizeof second, "%d", fds[1]);
        execl("/proc/self/exe", "hands", kind, first, second, (char *)NULL);
        _exit(99);
    }
    CHECK(child > 0);
    return child;
}

static int is(const char *name)
{
    return strcmp(kind, name) == 0;
}

static void lock(int kind_of_lock)
{
    if (is("flock"))
        CHECK(flock(fds[0], kind_of_lock == F_UNLCK ? LOCK_UN : LOCK_EX) == 0);
    else if (is("lockf"))
        CHECK(lockf(fds[0], kind_of_lock == F_UNLCK ? F_ULOCK : F_LOCK, 0) == 0);
    else {
        struct flock whole = {.l_type = (short)kind_of_lock, .l_whence = SEEK_SET};
        CHECK(fcntl(fds[0], F_SETLKW, &whole) == 0);
    }
}

/* Most of the time one of the two has the lock. */
static void by_lock(void)
{
    while (!is_enough()) {
        lock(F_WRLCK);
        for (int i = 0; i < 6; i++)
            hot();
        lock(F_UNLCK);
        hot();
        WHATIF_PROGRESS_NAMED("done");
    }
}

static void by_eventfd(void)
{
    uint64_t one = 1;
    while (read(fds[0], &one, sizeof one) == sizeof one) {
        for (int i = 0; i < 6; i++)
            hot();
        if (write(fds[1], &one, sizeof one) != sizeof one)
            break;
    }
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    kind = argv[1];
    if (argc > 3) {
        fds[0] = atoi(argv[2]);
        fds[1] = atoi(argv[3]);
        if (is("eventfd"))
            by_eventfd();
        else if (is("pidfd") || is("vfork"))
            work_for(0.01);
        else {
            /* A description of its own. */
            fds[0] = open("/proc/self/fd/3", O_RDWR);
            by_lock();
        }
        return 0;
    }
    if (is("eventfd")) {
        fds[0] = eventfd(1, 0);
        fds[1] = eventfd(0, 0);
        const pid_t child = other_one(fork);
        uint64_t one = 1;
        while (!is_enough()) {
            CHECK(read(fds[1], &one, sizeof one) == sizeof one);
            hot();
            WHATIF_PROGRESS_NAMED("done");
            CHECK(write(fds[0], &one, sizeof one) == sizeof one);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    } else if (is("pidfd") || is("vfork")) {
        while (!is_enough()) {
            const pid_t child = other_one(is("vfork") ? vfork : fork);
            struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
            CHECK(ended.fd >= 0 && poll(&ended, 1, -1) == 1);
            CHECK(waitpid(child, NULL, 0) == child);
            close(ended.fd);
            WHATIF_PROGRESS_NAMED("done");
        }
    } else {
        char name[] = "hands-XXXXXX";
        const int made = mkstemp(name);
        CHECK(made >= 0 && unlink(name) == 0);
        fds[0] = made == 3 ? made : dup2(made, 3);
        const pid_t child = other_one(fork);
        by_lock();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return failures != 0;
}
