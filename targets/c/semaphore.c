/*
 * semaphore - the three stages of pipeline.c, A (1 ms), B (4 ms) and C (1 ms), with semaphores.
 *
 * Answer: as there. Each queue is a pair of semaphores: free places and items.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include semaphore.c -o semaphore
 */
#include <semaphore.h>

#include "target.h"
#include "threads.h"

static long a, b, c;

static struct queue {
    sem_t places, items;
} to_b, to_c;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

REGION static void C(void) { WORK(c); }

static void push(struct queue *queue)
{
    sem_wait(&queue->places);
    sem_post(&queue->items);
}

static void pop(struct queue *queue)
{
    sem_wait(&queue->items);
    sem_post(&queue->places);
}

static void *first(void *unused)
{
    for (;;) {
        A();
        push(&to_b);
    }
    return unused;
}

static void *second(void *unused)
{
    for (;;) {
        pop(&to_b);
        B();
        push(&to_c);
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 1);
    b = iterations("B", 4);
    c = iterations("C", 1);
    struct queue *const queues[] = {&to_b, &to_c};
    for (int i = 0; i < 2; i++) {
        sem_init(&queues[i]->places, 0, 4);
        sem_init(&queues[i]->items, 0, 0);
    }
    start("item");
    spawn(first, NULL);
    spawn(second, NULL);
    while (!over()) {
        pop(&to_c);
        C();
        WHATIF_PROGRESS_NAMED("item");
        visited();
    }
    finish();
}
