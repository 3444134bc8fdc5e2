/*
 * pad.c - linked into a real program that `bench -- padding` measures.
 *
 * The program is compiled with -fpatchable-function-entry=5: every function begins with five one-byte no-ops. Before `main`
 * this writes a call over those of the functions that the environment names:
 *
 *   PADDING_FILE      the file that is shared with the benchmark (struct shared); without it nothing happens
 *   PADDING_POINT     the function whose calls are the program's progress
 *   PADDING_FUNCTION  the function that is padded: each call runs `added_pad` first; `all` counts calls of every function instead
 *   PADDING_BEGIN     the functions whose entries are the begin and the end of a request, if its latency is to be measured
 *   PADDING_END
 *
 * A function is a hexadecimal distance from the first byte of the image.
 *
 * What is called from an entry must leave every register as it was: callers of a local function may count on registers that the
 * calling convention lets a function destroy (GCC's -fipa-ra), and a variadic function finds arguments in `al`, vector registers and the
 * chain register. So these functions save all general registers that they use (no_caller_saved_registers), use no others (general-regs-only), and
 * call nothing that does not keep to the same. Flags have no meaning at a call.
 *
 * What it does not do: it does not pad code that was compiled without such entries, and it does not unpatch.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef __x86_64__
#error "entries are patched with instructions of x86-64"
#endif

#define FROM_ENTRY __attribute__((noinline, no_caller_saved_registers, target("general-regs-only")))

/* bench/src/padding/shared.rs has the same offsets. Each group has a cache line of its own. */
struct shared {
    _Alignas(64) uint64_t iterations; /* of `added_pad` in each call; the benchmark writes it */
    _Alignas(64) uint64_t visits;     /* calls of the progress point */
    uint64_t last_visit;              /* the time-stamp counter at the last of them */
    _Alignas(64) uint64_t calls;      /* of the padded function */
    _Alignas(64) uint64_t ready;      /* 1 after patching */
    uint64_t picos;                   /* that one iteration takes here */
    _Alignas(64) uint64_t begun;      /* requests that began */
    uint64_t begun_at;                /* the sum of the time-stamp counter at each of them */
    uint64_t ended;
    uint64_t ended_at;
    _Alignas(4096) uint64_t calls_at[]; /* by distance of the function: only when all are counted */
};

/* What whatif.h describes: the runtime's counter of a progress point. */
struct counter {
    size_t count;
    size_t backoff;
};

extern const char __ehdr_start[];
extern uintptr_t __start___patchable_function_entries[], __stop___patchable_function_entries[];

static struct shared *shared;
static struct counter *counter;

/* The work that is added: one dependent multiplication after the other, always the same time. */
FROM_ENTRY void added_pad(uint64_t iterations)
{
    uint64_t x = iterations;
    while (iterations-- > 0) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
}

/* Called first in the padded function. */
FROM_ENTRY static void on_call(void)
{
    __atomic_fetch_add(&shared->calls, 1, __ATOMIC_RELAXED);
    const uint64_t iterations = __atomic_load_n(&shared->iterations, __ATOMIC_RELAXED);
    if (iterations)
        added_pad(iterations);
}

/* Called first in the progress point. */
FROM_ENTRY static void on_visit(void)
{
    __atomic_fetch_add(&shared->visits, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->last_visit, __builtin_ia32_rdtsc(), __ATOMIC_RELAXED);
    if (counter)
        __atomic_fetch_add(&counter->count, 1, __ATOMIC_RELAXED);
}

/* Called first in the function that begins a request, and in the one that ends it. A begin counts before it adds its time, an end after it
   has: so the sums are complete whenever as many have ended as have begun. */
FROM_ENTRY static void on_begin(void)
{
    __atomic_fetch_add(&shared->begun, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&shared->begun_at, __builtin_ia32_rdtsc(), __ATOMIC_SEQ_CST);
}

FROM_ENTRY static void on_end(void)
{
    __atomic_fetch_add(&shared->ended_at, __builtin_ia32_rdtsc(), __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&shared->ended, 1, __ATOMIC_SEQ_CST);
}

/* Called first in every function, when all are counted. The caller's return address is behind the five bytes of the call. */
FROM_ENTRY static void on_any_call(void)
{
    const uintptr_t entry = (uintptr_t)__builtin_return_address(0) - 5;
    /* Without a lock prefix: a call that is lost among millions does not matter, time does. */
    shared->calls_at[entry - (uintptr_t)__ehdr_start] += 1;
}

__attribute__((noreturn, cold)) static void fail(const char *what, const char *value, const char *advice)
{
    fprintf(stderr, "pad.c: %s '%s' (%s)\n", what, value, advice);
    _exit(97);
}

static int is_patchable(uintptr_t entry)
{
    for (const uintptr_t *one = __start___patchable_function_entries; one < __stop___patchable_function_entries; one++)
        if (*one == entry)
            return 1;
    return 0;
}

/* Whether the five no-ops at `entry` were there and call `function` now. Their pages must be writable. */
static int patch(uintptr_t entry, void (*function)(void))
{
    static const unsigned char nops[5] = {0x90, 0x90, 0x90, 0x90, 0x90};
    const int64_t distance = (int64_t)((uintptr_t)function - (entry + 5));
    unsigned char *const code = (unsigned char *)entry;
    if (memcmp(code, nops, sizeof nops) != 0 || distance != (int32_t)distance)
        return 0;
    const int32_t displacement = (int32_t)distance;
    code[0] = 0xe8;
    memcpy(code + 1, &displacement, sizeof displacement);
    return 1;
}

/* Makes the pages from the first to the last entry writable, or not any more. */
static void protect(int protection)
{
    uintptr_t first = UINTPTR_MAX, last = 0;
    for (const uintptr_t *one = __start___patchable_function_entries; one < __stop___patchable_function_entries; one++) {
        first = *one < first ? *one : first;
        last = *one > last ? *one : last;
    }
    first &= ~(uintptr_t)4095;
    if (first < last && mprotect((void *)first, last + 5 - first, protection) != 0)
        fail("the code cannot be changed:", strerror(errno), "does the system forbid writable code?");
}

static void patch_named(const char *variable, void (*function)(void))
{
    const char *const value = getenv(variable);
    if (!value)
        return;
    char *end;
    const uintptr_t entry = (uintptr_t)__ehdr_start + strtoul(value, &end, 16);
    if (end == value || *end || !is_patchable(entry))
        fail(variable, value, "is no function that was compiled with -fpatchable-function-entry=5");
    if (!patch(entry, function))
        fail(variable, value, "does not begin with five no-ops, or is named twice");
}

/* The quickest of several tries: others may have the CPU meanwhile. */
static uint64_t picos_per_iteration(void)
{
    const uint64_t iterations = 50000;
    uint64_t least = UINT64_MAX;
    for (int attempt = 0; attempt < 8; attempt++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        added_pad(iterations);
        clock_gettime(CLOCK_MONOTONIC, &end);
        const uint64_t nanos = (uint64_t)(end.tv_sec - begin.tv_sec) * 1000000000u + (uint64_t)(end.tv_nsec - begin.tv_nsec);
        least = nanos < least ? nanos : least;
    }
    return least * 1000 / iterations;
}

__attribute__((constructor(101))) static void start(void)
{
    const char *const path = getenv("PADDING_FILE");
    if (!path)
        return;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0)
        fail("PADDING_FILE cannot be opened:", path, strerror(errno));
    void *const memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        fail("PADDING_FILE cannot be mapped:", path, strerror(errno));
    close(file);
    shared = memory;
    shared->picos = picos_per_iteration();

    struct counter *(*get_counter)(int, const char *);
    void *const symbol = dlsym(RTLD_DEFAULT, "_coz_get_counter");
    if (symbol) {
        memcpy(&get_counter, &symbol, sizeof get_counter);
        counter = get_counter(1, "visit");
    }

    /* Programs that never end by themselves end with a benchmark that is killed. (A profiler ends them itself, and may have started them in
       a thread that has ended: that would end them, too.) */
    if (!counter)
        prctl(PR_SET_PDEATHSIG, SIGKILL);

    const char *const function = getenv("PADDING_FUNCTION");
    protect(PROT_READ | PROT_WRITE | PROT_EXEC);
    patch_named("PADDING_POINT", on_visit);
    patch_named("PADDING_BEGIN", on_begin);
    patch_named("PADDING_END", on_end);
    if (function && strcmp(function, "all") == 0) {
        for (const uintptr_t *one = __start___patchable_function_entries; one < __stop___patchable_function_entries; one++)
            if (*one + 8 <= (uintptr_t)__ehdr_start + ((size_t)status.st_size - sizeof *shared) / 8)
                patch(*one, on_any_call);
    } else {
        patch_named("PADDING_FUNCTION", on_call);
    }
    protect(PROT_READ | PROT_EXEC);
    __atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
}
