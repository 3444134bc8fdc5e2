/*
 * latency - requests wait in a queue for one server, which does A (1.5 ms on average) and B (1 ms) for each.
 *
 *   clients=0   (default) requests arrive at random, one in 5 ms on average, however long others wait:
 *               an open loop, about M/M/1
 *   clients=N   N clients think for about 4 ms, ask, and wait for the answer: a closed loop
 *
 * What is printed as a rate is the inverse of the mean time from a request to its answer, and as `request/95` that of
 * the time that 95 % of them do not exceed. Answer: A and B shorten that by more than their share of the server's time,
 * because the queue gets shorter too.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include latency.c -o latency
 */
#include "target.h"
#include "threads.h"

#define PLACES 4096
#define MOST (1 << 20)

static long a, b;
static int clients;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static double since[PLACES];
static unsigned long requests, answers;
static double waited; /* by all answered requests together */
static double took[MOST];

REGION static void A(double size) { WORK((long)(a * size)); }

REGION static void B(double size) { WORK((long)(b * size)); }

/* Between 0 and 2, 1 on average: as random as queues need. */
static double size(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / (double)(1ull << 52);
}

static void wait_ms(double ms)
{
    const struct timespec time = {0, (long)(ms * 1e6)};
    nanosleep(&time, NULL);
}

/* Returns the number of the request. */
static unsigned long ask(void)
{
    pthread_mutex_lock(&mutex);
    const unsigned long number = requests++;
    since[number % PLACES] = now();
    WHATIF_BEGIN_KEY("request", number);
    pthread_cond_signal(&asked);
    pthread_mutex_unlock(&mutex);
    return number;
}

static void *client(void *own)
{
    uint64_t state = 0x9e3779b97f4a7c15u * ((uintptr_t)own + 1);
    for (;;) {
        wait_ms(4 * size(&state));
        const unsigned long number = ask();
        pthread_mutex_lock(&mutex);
        while (answers <= number)
            pthread_cond_wait(&answered, &mutex);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *arrivals(void *unused)
{
    uint64_t state = 88172645463325252u;
    for (;;) {
        wait_ms(5 * size(&state));
        ask();
    }
    return unused;
}

static int compare(const void *a, const void *b)
{
    const double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 1.5);
    b = iterations("B", 1);
    clients = (int)argument("clients", 0);
    start("request");
    uint64_t state = 0x2545f4914f6cdd1du;
    for (uintptr_t i = 0; i < (uintptr_t)clients; i++)
        spawn(client, (void *)i);
    if (clients == 0)
        spawn(arrivals, NULL);
    while (!over()) {
        pthread_mutex_lock(&mutex);
        while (answers == requests)
            pthread_cond_wait(&asked, &mutex);
        const double begun = since[answers % PLACES];
        pthread_mutex_unlock(&mutex);
        A(size(&state));
        B(size(&state));
        pthread_mutex_lock(&mutex);
        took[answers % MOST] = now() - begun;
        waited += took[answers % MOST];
        answers++;
        WHATIF_END_KEY("request", answers - 1);
        pthread_cond_broadcast(&answered);
        pthread_mutex_unlock(&mutex);
        visited();
    }
    printf("rate request %.3f\n", waited > 0 ? (double)answers / waited : 0.0);
    const size_t number = answers < MOST ? answers : MOST;
    qsort(took, number, sizeof *took, compare);
    const int percentiles[] = {50, 95, 99};
    for (size_t i = 0; i < 3; i++)
        printf("rate request/%d %.3f\n", percentiles[i], number > 0 ? 1 / took[number * (size_t)percentiles[i] / 100] : 0.0);
    fflush(stdout);
    _exit(0);
}
