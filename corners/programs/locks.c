/* Locks whose owner dies, waits with limits, cancellation, and bytes through pipes. */
#include "corner.h"
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <threads.h>

static pthread_mutex_t robust, inheriting;
static long counted;

static void *dies_with_lock(void *unused)
{
    pthread_mutex_lock(&robust);
    other();
    return unused;
}

static void *counts(void *unused)
{
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&inheriting);
        counted++;
        if (i % 20 == 0)
            other();
        pthread_mutex_unlock(&inheriting);
    }
    return unused;
}

/* Locks it and says whether its owner had died. */
static int owner_died(pthread_mutex_t *mutex)
{
    const int died = pthread_mutex_lock(mutex) == EOWNERDEAD;
    if (died)
        CHECK(pthread_mutex_consistent(mutex) == 0);
    CHECK(pthread_mutex_unlock(mutex) == 0);
    return died;
}

static void owners_die(void)
{
    pthread_mutexattr_t attributes;
    pthread_t threads[6];
    int died = 0;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    for (int i = 0; i < 50; i++) {
        CHECK(pthread_create(&threads[0], NULL, dies_with_lock, NULL) == 0);
        CHECK(pthread_join(threads[0], NULL) == 0);
        died += owner_died(&robust);
    }
    printf("%d threads died with the lock\n", died);

    pthread_mutex_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(shared, &attributes);
    died = 0;
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (child == 0) {
            pthread_mutex_lock(shared);
            kill(getpid(), SIGKILL);
        }
        CHECK(ended(child) == 1000 + SIGKILL);
        died += owner_died(shared);
    }
    printf("%d processes died with the lock\n", died);

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inheriting, &attributes);
    for (int i = 0; i < 6; i++)
        CHECK(pthread_create(&threads[i], NULL, counts, NULL) == 0);
    for (int i = 0; i < 6; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(counted == 1200);

    pthread_mutex_t checking;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &attributes);
    CHECK(pthread_mutex_lock(&checking) == 0 && pthread_mutex_lock(&checking) == EDEADLK);
    CHECK(pthread_mutex_unlock(&checking) == 0 && pthread_mutex_unlock(&checking) == EPERM);
}

static pthread_rwlock_t read_or_written = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spun;
static mtx_t of_c11;
static long sums[3];

static void *takes_all(void *unused)
{
    for (int i = 0; i < 2000; i++) {
        CHECK(pthread_rwlock_rdlock(&read_or_written) == 0);
        const long read = sums[0];
        CHECK(pthread_rwlock_unlock(&read_or_written) == 0);
        CHECK(pthread_rwlock_wrlock(&read_or_written) == 0 && sums[0] >= read);
        sums[0]++;
        CHECK(pthread_rwlock_unlock(&read_or_written) == 0 && pthread_spin_lock(&spun) == 0);
        sums[1]++;
        CHECK(pthread_spin_unlock(&spun) == 0 && mtx_lock(&of_c11) == thrd_success);
        sums[2]++;
        CHECK(mtx_unlock(&of_c11) == thrd_success);
        if (i % 200 == 0)
            other();
    }
    return unused;
}

/* Reader/writer, spin and C11 locks, free and wanted: each lets one thread in, says what it refuses, and leaves errno alone. */
static void other_locks(void)
{
    pthread_t threads[4];
    pthread_rwlock_t lock;
    mtx_t recursive;
    CHECK(pthread_rwlock_init(&lock, NULL) == 0 && mtx_init(&recursive, mtx_plain | mtx_recursive) == thrd_success);
    CHECK(pthread_spin_init(&spun, PTHREAD_PROCESS_PRIVATE) == 0 && mtx_init(&of_c11, mtx_plain) == thrd_success);
    errno = 77;
    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    CHECK(pthread_rwlock_wrlock(&lock) == EDEADLK && pthread_rwlock_rdlock(&lock) == EDEADLK);
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    CHECK(pthread_rwlock_rdlock(&lock) == 0 && pthread_rwlock_rdlock(&lock) == 0);
    CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_unlock(&lock) == 0);
    CHECK(mtx_lock(&recursive) == thrd_success && mtx_lock(&recursive) == thrd_success);
    CHECK(mtx_unlock(&recursive) == thrd_success && mtx_unlock(&recursive) == thrd_success);
    CHECK(pthread_spin_lock(&spun) == 0 && pthread_spin_unlock(&spun) == 0);
    CHECK(errno == 77);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, takes_all, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%ld %ld %ld times\n", sums[0], sums[1], sums[2]);
}

/* Waits with a limit on either clock end by it, and not before it. */
static void limits_of_waits(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    const struct timespec nonsense = {0, 2000000000};
    struct timespec after;
    pthread_mutex_lock(&mutex);
    for (int i = 0; going_on(); i++) {
        const clockid_t clock = i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
        const struct timespec until = in_ms(clock, 3);
        CHECK(pthread_cond_clockwait(&condition, &mutex, clock, &until) == ETIMEDOUT);
        clock_gettime(clock, &after);
        CHECK(after.tv_sec > until.tv_sec || (after.tv_sec == until.tv_sec && after.tv_nsec >= until.tv_nsec));
        CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &nonsense) == EINVAL);
        CHECK(pthread_cond_clockwait(&condition, &mutex, 77, &until) == EINVAL);
        other();
    }
    pthread_mutex_unlock(&mutex);
}

#define KINDS 7
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t never_posted;
static int ends[2], cleaned, begun;

static void cleanup(void *mutex)
{
    if (mutex)
        pthread_mutex_unlock(mutex);
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *is_cancelled(void *kind_)
{
    const long kind = (long)kind_;
    char byte;
    struct pollfd poll_it = {ends[0], POLLIN, 0};
    const struct timespec long_time = {1000, 0};
    pthread_cleanup_push(cleanup, kind == 0 ? &held : NULL);
    if (kind == 0)
        pthread_mutex_lock(&held);
    __atomic_fetch_add(&begun, 1, __ATOMIC_RELEASE);
    if (kind == 5)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (volatile uint64_t x = 1;;) {
        if (kind == 0)
            pthread_cond_wait(&never, &held);
        else if (kind == 1)
            sem_wait(&never_posted);
        else if (kind == 2 && read(ends[0], &byte, 1) != 1)
            break;
        else if (kind == 3)
            usleep(1000000);
        else if (kind == 4)
            poll(&poll_it, 1, -1);
        else if (kind == 5)
            x = x * 6364136223846793005u + 1;
        else if (kind == 6)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

/* In waits of all kinds, and anywhere. */
static void cancellation(void)
{
    int rounds = 0;
    CHECK(pipe(ends) == 0);
    sem_init(&never_posted, 0, 0);
    for (; going_on(); rounds++) {
        pthread_t threads[KINDS];
        begun = 0;
        for (long i = 0; i < KINDS; i++)
            CHECK(pthread_create(&threads[i], NULL, is_cancelled, (void *)i) == 0);
        while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < KINDS)
            usleep(20);
        for (int i = 0; i < rounds % 8; i++)
            other();
        for (int i = 0; i < KINDS; i++)
            CHECK(pthread_cancel(threads[i]) == 0);
        for (int i = 0; i < KINDS; i++) {
            void *result = NULL;
            CHECK(pthread_join(threads[i], &result) == 0 && result == PTHREAD_CANCELED);
        }
        CHECK(cleaned == KINDS * (rounds + 1));
    }
    CHECK(pthread_mutex_trylock(&held) == 0);
}

/* Two megabytes from a child, in pieces that fit into each other badly. */
static void pipes(void)
{
    unsigned char piece[333];
    uint64_t sum = 0, length = 0;
    ssize_t got;
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        for (int i = 0; i < 20000; i++) {
            memset(piece, i, 100);
            if (write(ends[1], piece, 100) != 100)
                _exit(1);
            if (i % 100 == 0)
                other();
        }
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], piece, sizeof piece)) > 0) {
        for (ssize_t i = 0; i < got; i++)
            sum = sum * 31 + piece[i];
        length += (uint64_t)got;
    }
    printf("%llu bytes, sum %llx, child %d\n", (unsigned long long)length, (unsigned long long)sum, ended(child));
}

/* Libraries that come and go. */
static void libraries(void)
{
    CHECK(dlsym(RTLD_NEXT, "pthread_mutex_lock") != NULL && dlsym(RTLD_DEFAULT, "no_such_name") == NULL);
    while (going_on()) {
        void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library)
            skipped("no libz.so.1");
        unsigned long (*crc32)(unsigned long, const char *, unsigned) = dlsym(library, "crc32");
        CHECK(crc32 && crc32(0, "abc", 3) == 891568578);
        for (int i = 0; i < 30; i++)
            sink += crc32(sink, "0123456789", 10);
        CHECK(dlclose(library) == 0);
        other();
    }
}

int main(int argc, char **argv)
{
    static const struct corner corners[] = {
        {"owners_die", owners_die, 0},   {"other_locks", other_locks, 0},   {"limits", limits_of_waits, 0},
        {"cancellation", cancellation, 0}, {"pipes", pipes, 0},           {"libraries", libraries, 0},
        {NULL, NULL, 0},
    };
    return run_corner(argc, argv, corners);
}
