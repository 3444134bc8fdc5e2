/* Executes itself several times. Each process makes functions at the same addresses as the others, writes down their names as JIT compilers do, and spends its
   time in them. */
#include "common.h"
#include "enough.h"
#include <sys/mman.h>
#include <sys/stat.h>

static unsigned char *const PLACE = (unsigned char *)0x500000000000;
static char path[64];

/* Makes the function of this number. */
static void (*make(int number))(void)
{
    /* push %rbp; mov %rsp,%rbp; mov $3000000,%eax; 1: dec %eax; jnz 1b; pop %rbp; ret */
    static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xb8, 0xc0, 0xc6, 0x2d, 0x00,
                                          0xff, 0xc8, 0x75, 0xfc, 0x5d, 0xc3 };
    unsigned char *const at = PLACE + 64 * number;
    memcpy(at, code, sizeof code);
    return (void (*)(void))at;
}

static void name(int number, const char *name)
{
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "a");
    CHECK(map && fprintf(map, "%lx 40 js:%s\n", (unsigned long)PLACE + 64 * number, name) > 0);
    fclose(map);
}

static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* So much CPU time, and as long as the test has not seen enough of what is called so, if it looks for that. */
static void spend(double seconds, void (*made)(void), const char *name)
{
    char seen[4096];
    snprintf(seen, sizeof seen, "%s.%s", is_watched() && name ? getenv("ENOUGH") : "", name ? name : "");
    const double end = cpu_time() + seconds;
    while (cpu_time() < end || (is_watched() && name && access(seen, F_OK) != 0)) {
        made();
        WHATIF_PROGRESS_NAMED("made");
    }
}

static void *child(void *argument)
{
    pid_t *pid = argument;
    int status;
    CHECK(waitpid(*pid, &status, 0) == *pid && status == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        static char *const words[] = { "one", "two", "heir", "forged", "stale" };
        enum { COUNT = sizeof words / sizeof *words };
        pid_t pids[COUNT];
        pthread_t threads[COUNT];
        for (int i = 0; i < COUNT; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                execl("/proc/self/exe", argv[0], words[i], NULL);
                _exit(99);
            }
        }
        for (int i = 0; i < COUNT; i++)
            CHECK(pthread_create(&threads[i], NULL, child, &pids[i]) == 0);
        for (int i = 0; i < COUNT; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        return done();
    }
    CHECK(mmap(PLACE, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
          PLACE);
    const char *const word = argv[1];
    if (!strcmp(word, "one")) {
        name(0, "one");
        spend(1.2, make(0), "one");
    } else if (!strcmp(word, "two")) {
        name(0, "two");
        spend(0.4, make(0), "two");
    } else if (!strcmp(word, "heir")) {
        /* A child has its parent's functions, and makes others. */
        void (*const inherited)(void) = make(0);
        name(0, "inherited");
        spend(0.2, inherited, "inherited");
        const pid_t heir = fork();
        if (heir == 0) {
            spend(0.4, inherited, NULL);
            name(1, "heir");
            spend(0.4, make(1), "heir");
            unlink(path);
            _exit(0);
        }
        child((void *)&heir);
        /* And the parent makes something else in the child's place. */
        name(1, "parent");
        spend(0.2, make(1), "parent");
    } else if (!strcmp(word, "forged")) {
        /* Another user's, whom only root can be: it is not believed. */
        name(0, "forged");
        if (geteuid() == 0 && chown(path, 65534, 65534) == 0)
            spend(0.2, make(0), NULL);
    } else if (!strcmp(word, "stale")) {
        /* What was there before the program was executed is of another one. */
        const struct timespec long_ago[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
        name(0, "stale");
        CHECK(utimensat(AT_FDCWD, path, long_ago, 0) == 0);
        spend(0.2, make(0), NULL);
    }
    unlink(path);
    return failures != 0;
}
