/* Limits of the process, its descriptors, and its place among others. */
#include "corner.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static void *brief_work(void *unused)
{
    other();
    return unused;
}

/* How many of 20 threads could not be created. */
static int refused_threads(void)
{
    int refused = 0;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, brief_work, NULL))
            refused++;
        else
            CHECK(pthread_join(thread, NULL) == 0);
    }
    return refused;
}

static void under(int resource, rlim_t value)
{
    const struct rlimit limit = {value, value};
    meanwhile(0.1);
    CHECK(setrlimit(resource, &limit) == 0);
    meanwhile(0.2);
    printf("%d threads refused\n", refused_threads());
    const int fd = open("/dev/null", O_RDONLY);
    printf("next descriptor %d (%d)\n", fd, fd < 0 ? errno : 0);
}

static void descriptors(void)
{
    under(RLIMIT_NOFILE, (rlim_t)second_argument);
}

/* More memory than there may be. */
static void memory(void)
{
    under(RLIMIT_AS, 64 << 20);
    CHECK(mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
}

/* 256 MB more than there are: enough for the program. */
static void more_memory(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    under(RLIMIT_AS, pages * 4096 + (256ul << 20));
}

static void stack(void)
{
    under(RLIMIT_STACK, 65536);
}

static void locked(void)
{
    under(RLIMIT_MEMLOCK, 0);
}

static void pending(void)
{
    under(RLIMIT_SIGPENDING, 0);
    CHECK(sigqueue(getpid(), 40, (union sigval){.sival_int = 1}) == -1 && errno == EAGAIN);
}

static void file_size(void)
{
    FILE *file = tmpfile();
    signal(SIGXFSZ, SIG_IGN);
    under(RLIMIT_FSIZE, 4096);
    char text[8192] = {0};
    CHECK(write(fileno(file), text, sizeof text) == 4096);
    CHECK(write(fileno(file), text, 1) == -1 && errno == EFBIG);
    fclose(file);
}

/* What a program closes that it did not open. */
static void closes_all(void)
{
    CHECK(close_range(3, ~0u, 0) == 0);
    const int one = open("/dev/null", O_RDONLY), two = open("/dev/null", O_RDONLY);
    printf("%d threads refused\n", refused_threads());
    meanwhile(0.2);
    for (int i = 3; i < 1024; i++)
        close(i);
    meanwhile(0.1);
    const int three = open("/dev/null", O_RDONLY);
    printf("descriptors %d %d %d\n", one, two, three);
    printf("%d threads refused\n", refused_threads());
    for (int i = 3; i < 1024; i++)
        if (i != three)
            CHECK(close(i) == -1 && errno == EBADF);
}

/* The map of memory can be read while it changes, and is whole. */
static void maps(void)
{
    char line[4096];
    while (going_on()) {
        FILE *file = fopen("/proc/self/maps", "r");
        unsigned long from, to, last = 0;
        while (fgets(line, sizeof line, file)) {
            CHECK(sscanf(line, "%lx-%lx", &from, &to) == 2 && from >= last && to > from);
            last = to;
        }
        fclose(file);
        other();
    }
}

/* One CPU of those that there are, and a real-time priority. */
static void scheduling(void)
{
    cpu_set_t all, one;
    struct sched_param priority = {.sched_priority = 5};
    CPU_ZERO(&one);
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    meanwhile(0.2);
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0 && CPU_EQUAL(&all, &one));
    printf("scheduler %d, slack %d\n", sched_getscheduler(0), prctl(PR_GET_TIMERSLACK));
    printf("real time: %d\n", sched_setscheduler(0, SCHED_FIFO, &priority) ? errno : 0);
    meanwhile(0.1);
    usleep(10000);
    printf("scheduler %d\n", sched_getscheduler(0));
    priority.sched_priority = 0;
    CHECK(sched_setscheduler(0, SCHED_OTHER, &priority) == 0);
    errno = 0;
    const int niceness = getpriority(PRIO_PROCESS, 0);
    CHECK(errno == 0 && nice(3) == niceness + 3);
    meanwhile(0.1);
    CHECK(getpriority(PRIO_PROCESS, 0) == niceness + 3);
}

int main(int argc, char **argv)
{
    static const struct corner corners[] = {
        {"descriptors", descriptors, 0}, {"memory", memory, 0},         {"more_memory", more_memory, 0},
        {"stack", stack, 0},             {"locked", locked, 0},         {"pending", pending, 0},
        {"file_size", file_size, 0},     {"closes_all", closes_all, 0}, {"maps", maps, 0},
        {"scheduling", scheduling, 0},   {NULL, NULL, 0},
    };
    return run_corner(argc, argv, corners);
}
