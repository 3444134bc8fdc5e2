/*
 * whatif.h - progress points for C and C++ programs.
 *
 *   WHATIF_PROGRESS;                  one more piece of work is done; named "file:line"
 *   WHATIF_PROGRESS_NAMED("frame");   the same, with a name
 *   WHATIF_BEGIN("request");          a piece of work begins ...
 *   WHATIF_END("request");            ... and ends, perhaps elsewhere, perhaps on another thread
 *
 *   WHATIF_BEGIN_KEY("request", id);  the same for work that an integer tells from all other work that
 *   WHATIF_END_KEY("request", id);    is under way in any process of the program: then percentiles of the latency are known,
 *                                     and not only its mean, whatever threads begin and end it
 *
 * Each is a statement; names are string literals. Then `whatif run -- ./program` finds out which
 * code, were it faster, would make these visits come sooner.
 *
 * There is nothing to link: the profiler's preloaded runtime is found by name at run time. In a
 * program that is not profiled a visit costs one load and one comparison. Define WHATIF_DISABLE
 * before including this file to compile every point to nothing; outside Linux that is the default.
 *
 * Needs GCC or Clang, C99 or C++11. The contract with the runtime is one function:
 *
 *   struct { size_t count; size_t backoff; } *_coz_get_counter(int kind, const char *name);
 *
 * kind: 1 throughput, 2 begin, 3 end. The same kind and name give the same pointer for the life of
 * the process; NULL means that the runtime's table is full. (Coz has the same function, so these
 * points serve it as well.) A visit adds 1 to `count`; one to a begin or an end calls
 *
 *   void _whatif_visit(counter);
 *   void _whatif_visit_key(counter, uint64_t key);
 *
 * instead, where there is such a function, which also notes when it was.
 *
 * Names that end in an underscore are internal.
 */
#ifndef WHATIF_H
#define WHATIF_H

#if !defined(__linux__) || defined(WHATIF_DISABLE)

#define WHATIF_VISIT_(kind, name) ((void)0)
#define WHATIF_VISIT_KEY_(kind, name, key) ((void)(key))

#else

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define WHATIF_NULL_ nullptr
#define WHATIF_POINTER_(type, value) reinterpret_cast<type>(value)
#else
#define WHATIF_NULL_ NULL
#define WHATIF_POINTER_(type, value) ((type)(value))
#endif

struct whatif_counter_ {
    size_t count;
    size_t backoff; /* Coz's own business */
};

typedef struct whatif_counter_ *(*whatif_get_counter_)(int kind, const char *name);
typedef void (*whatif_visit_)(struct whatif_counter_ *counter);
typedef void (*whatif_visit_key_)(struct whatif_counter_ *counter, uint64_t key);

/* A point starts as NULL (not asked yet) and becomes this (visits are not counted) or its counter. */
#define WHATIF_INACTIVE_ WHATIF_POINTER_(struct whatif_counter_ *, 1)

/* A weak reference: where dlsym needs a library of its own (glibc before 2.34) and the program is
   not linked to it, this is NULL and the program's points stay inactive. The alias keeps clear of
   <dlfcn.h>'s declaration. */
static void *whatif_dlsym_(void *handle, const char *name) __attribute__((weakref("dlsym")));

/* A function of the runtime or NULL. `found` remembers it: NULL: not asked yet; its own address: absent. */
__attribute__((unused, noinline, cold)) static void *whatif_runtime_(void **found, const char *name)
{
    void *symbol = __atomic_load_n(found, __ATOMIC_RELAXED);
    if (!symbol) {
        if (whatif_dlsym_)
            symbol = whatif_dlsym_(WHATIF_NULL_ /* RTLD_DEFAULT */, name);
        if (!symbol)
            symbol = found;
        __atomic_store_n(found, symbol, __ATOMIC_RELAXED);
    }
    return symbol == found ? WHATIF_NULL_ : symbol;
}

/* The counter of a point, or NULL without a profiler. The first call looks it up. Two threads may both do
   so: the runtime gives both the same answer. */
__attribute__((unused)) static struct whatif_counter_ *whatif_find_(struct whatif_counter_ **point, int kind,
                                                                    const char *name)
{
    /* Acquire pairs with the release below: what another thread saw of a fresh counter is seen. */
    struct whatif_counter_ *counter = __atomic_load_n(point, __ATOMIC_ACQUIRE);
    if (!counter) {
        static void *found;
        void *const symbol = whatif_runtime_(&found, "_coz_get_counter");
        if (symbol) {
            whatif_get_counter_ get_counter;
            /* ISO C converts no object pointer to a function pointer. */
            __builtin_memcpy(&get_counter, &symbol, sizeof get_counter);
            counter = get_counter(kind, name);
        }
        if (!counter)
            counter = WHATIF_INACTIVE_;
        __atomic_store_n(point, counter, __ATOMIC_RELEASE);
    }
    return counter == WHATIF_INACTIVE_ ? WHATIF_NULL_ : counter;
}

/* Adds one visit. */
__attribute__((unused, noinline)) static void whatif_count_(struct whatif_counter_ **point, int kind,
                                                            const char *name)
{
    struct whatif_counter_ *const counter = whatif_find_(point, kind, name);
    if (!counter)
        return;
    if (kind != 1) {
        static void *found;
        void *const symbol = whatif_runtime_(&found, "_whatif_visit");
        if (symbol) {
            whatif_visit_ visit;
            __builtin_memcpy(&visit, &symbol, sizeof visit);
            visit(counter);
            return;
        }
    }
    __atomic_fetch_add(&counter->count, 1, __ATOMIC_RELAXED);
}

/* The same for work with a key; a runtime that knows nothing of keys counts it. */
__attribute__((unused, noinline)) static void whatif_count_key_(struct whatif_counter_ **point, int kind,
                                                                const char *name, uint64_t key)
{
    static void *found;
    void *const symbol = whatif_runtime_(&found, "_whatif_visit_key");
    if (!symbol) {
        whatif_count_(point, kind, name);
        return;
    }
    struct whatif_counter_ *const counter = whatif_find_(point, kind, name);
    if (counter) {
        whatif_visit_key_ visit;
        __builtin_memcpy(&visit, &symbol, sizeof visit);
        visit(counter, key);
    }
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#define WHATIF_VISIT_(kind, name)                                                                  \
    do {                                                                                           \
        static struct whatif_counter_ *whatif_point_;                                              \
        if (__atomic_load_n(&whatif_point_, __ATOMIC_RELAXED) != WHATIF_INACTIVE_)                 \
            whatif_count_(&whatif_point_, kind, name);                                             \
    } while (0)

#define WHATIF_VISIT_KEY_(kind, name, key)                                                         \
    do {                                                                                           \
        static struct whatif_counter_ *whatif_point_;                                              \
        if (__atomic_load_n(&whatif_point_, __ATOMIC_RELAXED) != WHATIF_INACTIVE_)                 \
            whatif_count_key_(&whatif_point_, kind, name, (uint64_t)(key));                        \
    } while (0)

#endif

#define WHATIF_STRING_(text) #text
#define WHATIF_PLACE_(file, line) file ":" WHATIF_STRING_(line)

#define WHATIF_PROGRESS WHATIF_VISIT_(1, WHATIF_PLACE_(__FILE__, __LINE__))
#define WHATIF_PROGRESS_NAMED(name) WHATIF_VISIT_(1, "" name)
#define WHATIF_BEGIN(name) WHATIF_VISIT_(2, "" name)
#define WHATIF_END(name) WHATIF_VISIT_(3, "" name)
#define WHATIF_BEGIN_KEY(name, key) WHATIF_VISIT_KEY_(2, "" name, key)
#define WHATIF_END_KEY(name, key) WHATIF_VISIT_KEY_(3, "" name, key)

#endif /* WHATIF_H */
