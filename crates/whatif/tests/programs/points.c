/* The interface of progress points, by its names. The argument says what of it. */
#include "common.h"
#include <dlfcn.h>

struct counter {
    size_t count, backoff;
};

typedef struct counter *(*get_counter)(int, const char *);

static get_counter get;
static struct counter *answers[8][50];
static pthread_barrier_t barrier;

static void *registers(void *number)
{
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 50; i++) {
        char name[40];
        snprintf(name, sizeof name, "concurrent %d", i);
        answers[(long)number][i] = get(1, name);
    }
    return NULL;
}

static void interface(void)
{
    char name[400];
    struct counter *counter = get(1, "same");
    CHECK(counter != NULL && counter->count == 0);
    snprintf(name, sizeof name, "%s", "same");
    CHECK(get(1, name) == counter);
    CHECK(get(2, "same") != NULL && get(2, "same") != counter && get(3, "same") != get(2, "same"));
    CHECK(get(1, "other") != counter);
    CHECK(!get(0, "same") && !get(4, "same") && !get(-1, "same") && !get(1, NULL));
    CHECK(get(1, "") != NULL && get(1, "") == get(1, ""));
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    counter = get(1, name);
    CHECK(counter != NULL && get(1, name) == counter);
    name[300] = 'y'; /* beyond what is kept */
    CHECK(get(1, name) == counter);
    name[10] = 'y';
    CHECK(get(1, name) != counter);
    CHECK(get(1, "\xff\xfe not Unicode \x01") != NULL);

    pthread_t threads[8];
    pthread_barrier_init(&barrier, NULL, 8);
    for (long i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, registers, (void *)i) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 50; i++)
        for (int j = 0; j < 8; j++)
            CHECK(answers[j][i] != NULL && answers[j][i] == answers[0][i]);
}

static void full(void)
{
    char name[40];
    int had = 0;
    struct counter *first = get(1, "number 0");
    for (int i = 0; i < 6000; i++) {
        snprintf(name, sizeof name, "number %d", i);
        struct counter *counter = get(1, name);
        CHECK(counter != NULL || had >= 4000);
        had += counter != NULL;
    }
    CHECK(had >= 4000 && had < 6000);
    CHECK(get(1, "one more") == NULL && get(1, "number 0") == first);
    WHATIF_PROGRESS_NAMED("does not fit");
}

static void waits_unseen(void)
{
    void (*const add_delays)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "_coz_add_delays");
    void (*const pre_block)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "_coz_pre_block");
    void (*const post_block)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "_coz_post_block");
    CHECK(add_delays && pre_block && post_block);
    if (failures)
        return;
    for (const double end = now() + 1.0; now() < end;) {
        errno = 77;
        add_delays();
        other();
        pre_block();
        hot();
        post_block(0);
        pre_block();
        post_block(1);
        CHECK(errno == 77);
    }
}

/* What the program counts and what we count are the same. */
static long visits;

static void *counts(void *unused)
{
    for (int n = 0; n < 400; n++) {
        WHATIF_BEGIN("request");
        hot();
        WHATIF_END("request");
        WHATIF_PROGRESS_NAMED("visit");
        __atomic_fetch_add(&visits, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    get = (get_counter)dlsym(RTLD_DEFAULT, "_coz_get_counter");
    if (!strcmp(which, "counts")) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            CHECK(pthread_create(&threads[i], NULL, counts, NULL) == 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        struct counter *counter = get ? get(1, "visit") : NULL;
        CHECK(!get || counter->count == (size_t)visits);
        printf("%ld\n", visits);
        return done();
    }
    if (!get)
        return 3;
    start_background();
    if (!strcmp(which, "interface"))
        interface();
    else if (!strcmp(which, "full"))
        full();
    else if (!strcmp(which, "blocks"))
        waits_unseen();
    else
        return 2;
    for (int n = 0; n < 400; n++)
        hot();
    stop_background();
    puts("0");
    return done();
}
