/*
 * server - workers=N (default 4) take requests from a queue; each is parsed (0.6 ms), looked up in a
 * cache that one mutex guards (0.2 ms), and its answer is formatted (0.4 ms).
 *
 * Answer: on two CPUs there is always a worker to run and the cache is free most of the time, so
 * each is worth its share: parse s·50 %, lookup s·17 %, format s·33 %.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include server.c -o server
 */
#include "queue.h"
#include "target.h"
#include "threads.h"

enum { CACHE = 1024, ANSWER = 64 };

static long parsing, looking_up, formatting;
static struct queue requests = QUEUE(64);
static pthread_mutex_t cache_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t cache[CACHE];

REGION static uint64_t parse(uint64_t request)
{
    WORK(parsing);
    return request * 2654435761u % CACHE;
}

REGION static uint64_t lookup(uint64_t key)
{
    pthread_mutex_lock(&cache_mutex);
    WORK(looking_up);
    const uint64_t uses = ++cache[key];
    pthread_mutex_unlock(&cache_mutex);
    return uses;
}

REGION static void format(uint64_t uses, char *answer)
{
    WORK(formatting);
    snprintf(answer, ANSWER, "used %llu times", (unsigned long long)uses);
}

static void *ask(void *unused)
{
    for (;;)
        push(&requests);
    return unused;
}

static void *serve(void *unused)
{
    char answer[ANSWER];
    for (uint64_t request = 0; !over(); request++) {
        pop(&requests);
        format(lookup(parse(request)), answer);
        WHATIF_PROGRESS_NAMED("answer");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    parsing = iterations("parse", 0.6);
    looking_up = iterations("lookup", 0.2);
    formatting = iterations("format", 0.4);
    const int workers = (int)argument("workers", 4);
    start("answer");
    spawn(ask, NULL);
    for (int i = 1; i < workers; i++)
        spawn(serve, NULL);
    serve(NULL);
    finish();
}
