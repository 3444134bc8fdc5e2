/* Threads with names of their own, which run until the process is ended: two shards, and 100 that take turns. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile unsigned long sink;
static sem_t named;

static void *work(void *name)
{
    prctl(PR_SET_NAME, name);
    sem_post(&named);
    for (;;) {
        for (int i = 0; i < 200000; i++)
            sink++;
        usleep(10000);
    }
}

static void *pause_a_lot(void *name)
{
    prctl(PR_SET_NAME, name);
    for (;;) {
        for (int i = 0; i < 200000; i++)
            sink++;
        sleep(1);
    }
}

int main(void)
{
    static char names[100][16];
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_create(&thread, NULL, work, "shard-a");
    pthread_create(&thread, NULL, work, "shard-b");
    /* Only the first 64 names of a process are kept as they are. */
    sem_wait(&named);
    sem_wait(&named);
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "pool-%d", i);
        pthread_create(&thread, NULL, pause_a_lot, names[i]);
    }
    for (;;)
        pause();
}
