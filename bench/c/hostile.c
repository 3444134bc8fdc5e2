/* Programs of an ordinary user that make a collector of continuous profiles work or remember as much as they can.
   hostile KIND SECONDS [FILE] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* A loop in memory without a file: mov rax, rdi; dec rax; jnz -5; ret. */
static void (*generated(void))(long) {
    static const unsigned char code[] = {0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3};
    unsigned char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    return (void (*)(long))memory;
}

static void spin(double until) {
    void (*function)(long) = generated();
    while (now() < until) function(1000000);
}

/* A list of generated code, as expensive as can be. */
static void list(const char *kind, double until) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *file = fopen(path, "w");
    if (!file) exit(1);
    if (!strcmp(kind, "list-same"))
        for (int i = 0; i < 2700000; i++) fputs("1 1 a\n", file);
    if (!strcmp(kind, "list-nested"))
        for (long i = 0; i < 400000; i++) fprintf(file, "%lx %lx f%ld\n", 0x10000000 - i, 2 * i + 16, i);
    if (!strcmp(kind, "list-functions"))
        for (long i = 0; i < 760000; i++) fprintf(file, "%lx 10 f%ld\n", 0x10000000 + 16 * i, i);
    if (!strcmp(kind, "list-names"))
        for (int i = 0; i < 16; i++) {
            fprintf(file, "%x 10 ", 0x1000 + 16 * i);
            for (int j = 0; j < 1 << 20; j++) fputc('a' + i, file);
            fputc('\n', file);
        }
    if (!strcmp(kind, "list-pieces")) {
        fprintf(file, "0 ffffffffff ");
        for (int j = 0; j < 4000; j++) fputc('p', file);
        fputc('\n', file);
        for (long i = 0; i < 1000000; i++) fprintf(file, "%lx 1 p\n", 2 * i);
    }
    fclose(file);
    if (!strcmp(kind, "list-sparse") && truncate(path, 1L << 40)) exit(1);
    spin(until);
    unlink(path);
}

/* Many processes, each with such a list. */
static void lists(double until) {
    for (int i = 0; i < 20; i++)
        if (fork() == 0) {
            list("list-functions", until);
            _exit(0);
        }
    while (wait(NULL) > 0) {}
}

/* One file, mapped as code as often as it is allowed, between memory that is not code. */
static void mappings(double until) {
    char path[] = "/tmp/hostile-XXXXXX";
    int file = mkstemp(path);
    unlink(path);
    if (ftruncate(file, 1 << 20)) exit(1);
    for (int i = 0; i < 30000; i++) {
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, (i % 256) * 4096);
        mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    spin(until);
}

/* Files with long names, each mapped as code by many processes. */
static void images(double until) {
    char folder[] = "/tmp/hostile-XXXXXX", path[4096];
    if (!mkdtemp(folder)) exit(1);
    for (int process = 0; process < 8; process++)
        if (fork() == 0) {
            for (int i = 0; i < 4000; i++) {
                int length = snprintf(path, sizeof path, "%s/%d-%d-", folder, process, i);
                memset(path + length, 'x', 200);
                path[length + 200] = 0;
                int file = open(path, O_CREAT | O_RDWR, 0600);
                if (ftruncate(file, 4096)) exit(1);
                mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
                close(file);
                unlink(path);
            }
            spin(until);
            _exit(0);
        }
    while (wait(NULL) > 0) {}
    rmdir(folder);
}

/* Many processes, each with a name of its own that is always new. */
static void processes(double until) {
    for (int process = 0; process < 1500; process++)
        if (fork() == 0) {
            char name[16];
            for (int i = 0; now() < until; i++) {
                snprintf(name, sizeof name, "%x-%x", process, i);
                prctl(PR_SET_NAME, name, 0, 0, 0);
                usleep(20000);
            }
            _exit(0);
        }
    while (wait(NULL) > 0) {}
}

/* Processes that start and end as fast as they can. */
static void storm(double until) {
    for (int i = 0; now() < until; i++) {
        pid_t child = fork();
        if (child == 0) {
            char name[16];
            snprintf(name, sizeof name, "storm-%x", i);
            prctl(PR_SET_NAME, name, 0, 0, 0);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

/* Stacks that are made up: every frame is another place of a large file. */
static void stacks(double until) {
    char path[] = "/tmp/hostile-XXXXXX";
    int file = mkstemp(path);
    unlink(path);
    size_t length = 1L << 33;
    if (ftruncate(file, length)) exit(1);
    char *code = mmap(NULL, length, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    static uint64_t frames[128][2];
    uint64_t random = 88172645463325252;
    while (now() < until) {
        for (int i = 0; i < 127; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            frames[i][0] = (uint64_t)&frames[i + 1];
            frames[i][1] = (uint64_t)code + random % length;
        }
        __asm__ volatile("push %%rbp\n mov %0, %%rbp\n mov $20000, %%rcx\n 1: dec %%rcx\n jnz 1b\n pop %%rbp\n"
                         :: "r"(&frames[0]) : "rcx", "memory");
    }
}

/* Runs the code of a file that is expensive to read: the page at 0x1000 of it. */
static void run_file(const char *path, double until) {
    int file = open(path, O_RDONLY);
    char *code = mmap(NULL, 0x1000, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0x1000);
    if (code == MAP_FAILED) exit(1);
    close(file);
    void (*function)(void) = (void (*)(void))code;
    while (now() < until)
        for (int i = 0; i < 100000; i++) function();
}

int main(int count, char **words) {
    if (count < 3) return 2;
    double until = now() + atof(words[2]);
    const char *kind = words[1];
    puts("ready"), fflush(stdout);
    if (!strncmp(kind, "list-", 5)) list(kind, until);
    else if (!strcmp(kind, "lists")) lists(until);
    else if (!strcmp(kind, "mappings")) mappings(until);
    else if (!strcmp(kind, "images")) images(until);
    else if (!strcmp(kind, "processes")) processes(until);
    else if (!strcmp(kind, "storm")) storm(until);
    else if (!strcmp(kind, "stacks")) stacks(until);
    else if (!strcmp(kind, "file") && count == 4) run_file(words[3], until);
    else if (!strcmp(kind, "nothing")) spin(until);
    else return 2;
    return 0;
}
